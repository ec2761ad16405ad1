#include "src/kube/backoff.h"

#include <algorithm>

namespace cd::kube {
namespace {

constexpr Duration kFirst{800};
constexpr Duration kLongest{30'000};
constexpr Duration kLongestWhileRefused{1'000};
constexpr Duration kQuiet{120'000};

}  // namespace

Duration WatchBackoff::Next(const Error& error, SteadyTime now) {
  if (now - last_ > kQuiet) failures_ = 0;
  last_ = now;
  Duration delay = kFirst;
  if (error.not_sent) {
    delay = kLongestWhileRefused;
    failures_ = 0;  // what comes after the outage is a new story
  } else {
    for (int i = 0; i < failures_ && delay < kLongest; ++i) delay *= 2;
    ++failures_;
  }
  delay = std::min(delay, kLongest);
  delay = rng_.Between(delay, 2 * delay);
  return error.retry_after ? std::max(delay, *error.retry_after) : delay;
}

}  // namespace cd::kube
