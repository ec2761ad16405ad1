#include "src/kube/backoff.h"

#include <gtest/gtest.h>

namespace cd::kube {
namespace {

constexpr SteadyTime kNow{std::chrono::hours(1)};

TEST(WatchBackoff, doubles_with_jitter_up_to_thirty_seconds) {
  WatchBackoff backoff(7);
  for (int expected : {800, 1600, 3200, 6400, 12'800, 25'600, 30'000, 30'000}) {
    const Duration delay = backoff.Next({ErrorCode::kUnavailable, ""}, kNow);
    EXPECT_GE(delay, Duration(expected));
    EXPECT_LT(delay, 2 * Duration(expected));
  }
}

TEST(WatchBackoff, two_quiet_minutes_forget_the_past) {
  WatchBackoff backoff(7);
  for (int i = 0; i < 5; ++i) backoff.Next({ErrorCode::kUnavailable, ""}, kNow);
  EXPECT_LT(backoff.Next({ErrorCode::kUnavailable, ""}, kNow + Duration(120'001)), Duration(1600));
}

TEST(WatchBackoff, refused_connections_never_wait_two_seconds) {
  WatchBackoff backoff(7);
  Error refused{ErrorCode::kUnavailable, ""};
  refused.not_sent = true;
  for (int i = 0; i < 100; ++i) EXPECT_LE(backoff.Next(refused, kNow), Duration(2000));
}

TEST(WatchBackoff, what_the_server_asks_for_is_the_least) {
  WatchBackoff backoff(7);
  EXPECT_EQ(backoff.Next({ErrorCode::kTooManyRequests, "", Duration(9000)}, kNow), Duration(9000));
}

}  // namespace
}  // namespace cd::kube
