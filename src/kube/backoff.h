// How long a list-watch waits after a failure.
#pragma once

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/base/rng.h"

namespace cd::kube {

// 0.8 s doubling to 30 s, each times a random factor in [1, 2) so that the clients of a recovered server do not come in one wave;
// forgotten after two quiet minutes. While nobody listens at the server's address the wait stays under 2 s: asking costs the
// server nothing then, and the new server should be found at once.
class WatchBackoff {
 public:
  explicit WatchBackoff(std::uint64_t seed) : rng_(seed) {}

  Duration Next(const Error& error, SteadyTime now);

 private:
  Rng rng_;
  int failures_ = 0;
  SteadyTime last_{};
};

}  // namespace cd::kube
