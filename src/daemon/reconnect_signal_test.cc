#include "src/daemon/reconnect_signal.h"

#include <gtest/gtest.h>

namespace cd::daemon {
namespace {

SteadyTime At(int milliseconds) {
  return SteadyTime(Duration(1000000 + milliseconds));
}

TEST(ReconnectSignal, nothing_is_sent_without_a_change) {
  ReconnectSignal signal;
  EXPECT_EQ(signal.NextDeadline(), std::nullopt);
  EXPECT_FALSE(signal.TakeIfDue(At(0)));
}

TEST(ReconnectSignal, the_first_change_is_signalled_at_once) {
  ReconnectSignal signal;
  signal.Owe();
  EXPECT_TRUE(signal.TakeIfDue(At(0)));
  EXPECT_FALSE(signal.TakeIfDue(At(1)));
}

TEST(ReconnectSignal, changes_inside_the_interval_become_one_signal_at_its_end) {
  ReconnectSignal signal;
  signal.Owe();
  ASSERT_TRUE(signal.TakeIfDue(At(0)));
  for (int t : {100, 900, 5000}) {
    signal.Owe();
    EXPECT_FALSE(signal.TakeIfDue(At(t))) << t;
  }
  EXPECT_EQ(signal.NextDeadline(), At(5200));
  EXPECT_TRUE(signal.TakeIfDue(At(5200)));
  EXPECT_FALSE(signal.TakeIfDue(At(10400)));
}

TEST(ReconnectSignal, repeats_five_times_with_doubling_waits) {
  ReconnectSignal signal;
  signal.Owe();
  ASSERT_TRUE(signal.TakeIfDue(At(0)));
  for (int t : {10000, 30000, 70000, 150000, 310000}) {
    EXPECT_FALSE(signal.TakeIfDue(At(t - 1))) << t;
    EXPECT_TRUE(signal.TakeIfDue(At(t))) << t;
  }
  EXPECT_EQ(signal.NextDeadline(), std::nullopt);
}

TEST(ReconnectSignal, connected_members_end_the_repeats_but_not_an_owed_signal) {
  ReconnectSignal signal;
  signal.Owe();
  ASSERT_TRUE(signal.TakeIfDue(At(0)));
  signal.Owe();
  signal.Satisfy();
  EXPECT_TRUE(signal.TakeIfDue(At(5200)));
  signal.Satisfy();
  EXPECT_EQ(signal.NextDeadline(), std::nullopt);
}

TEST(ReconnectSignal, a_new_change_starts_the_repeats_afresh) {
  ReconnectSignal signal;
  signal.Owe();
  ASSERT_TRUE(signal.TakeIfDue(At(0)));
  ASSERT_TRUE(signal.TakeIfDue(At(10000)));
  signal.Owe();
  EXPECT_EQ(signal.NextDeadline(), At(15200));
  ASSERT_TRUE(signal.TakeIfDue(At(15200)));
  EXPECT_EQ(signal.NextDeadline(), At(25200));
}

}  // namespace
}  // namespace cd::daemon
