#include "src/base/clock.h"

#include <gtest/gtest.h>

namespace cd {
namespace {

WallTime At(std::int64_t microseconds) {
  return WallTime(std::chrono::microseconds(microseconds));
}

TEST(Clock, time_has_whole_seconds) {
  EXPECT_EQ(FormatTime(At(1'796'061'600'999'999)), "2026-11-30T18:00:00Z");
}

TEST(Clock, micro_time_has_six_digits) {
  EXPECT_EQ(FormatMicroTime(At(1'796'061'600'000'042)), "2026-11-30T18:00:00.000042Z");
  EXPECT_EQ(FormatMicroTime(At(0)), "1970-01-01T00:00:00.000000Z");
}

TEST(Clock, time_before_the_epoch_rounds_down) {
  EXPECT_EQ(FormatMicroTime(At(-1)), "1969-12-31T23:59:59.999999Z");
}

TEST(Clock, leap_day) {
  EXPECT_EQ(FormatTime(At(1'709'164'800'000'000)), "2024-02-29T00:00:00Z");
}

TEST(Clock, machine_time_never_runs_backwards) {
  const SteadyTime first = SystemClock().Now();
  EXPECT_GE(SystemClock().Now(), first);
}

}  // namespace
}  // namespace cd
