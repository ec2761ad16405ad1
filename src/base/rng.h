// Randomness as a parameter: the same seed gives the same run. Only RandomSeed reads the machine's entropy.
#pragma once

#include <cstdint>
#include <random>

#include "src/base/clock.h"

namespace cd {

// Not thread-safe; not for secrets.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : engine_(seed) {}

  // Uniform in [0, 1).
  double Unit() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }
  // Uniform in [low, high).
  Duration Between(Duration low, Duration high) {
    return low + Duration(static_cast<Duration::rep>(Unit() * static_cast<double>((high - low).count())));
  }

 private:
  std::mt19937_64 engine_;
};

inline std::uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace cd
