// Randomness of one simulated run: the same seed gives the same throws on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/clock.h"

namespace cd::simulation {

class Dice {
 public:
  // The seed is mixed: as a multiple of the step below, one seed's throws would be the next one's, shifted by one.
  explicit Dice(std::uint64_t seed) : state_(Mixed(seed + kStep)) {}

  // splitmix64
  std::uint64_t Next() { return Mixed(state_ += kStep); }
  // 0 … n-1; n > 0.
  std::size_t Below(std::size_t n) { return static_cast<std::size_t>((Next() >> 11) % n); }
  // True in `share` of 1000.
  bool PerMille(unsigned share) { return Below(1000) < share; }
  Duration Between(Duration low, Duration high) {
    return low + Duration(static_cast<Duration::rep>(Below(static_cast<std::size_t>((high - low).count()) + 1)));
  }
  template <typename T>
  T& Pick(std::vector<T>& items) {
    return items[Below(items.size())];
  }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ull;

  static std::uint64_t Mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace cd::simulation
