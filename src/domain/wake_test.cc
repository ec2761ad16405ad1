#include "src/domain/wake.h"

#include <gtest/gtest.h>

namespace cd::domain {
namespace {

constexpr Duration kYoung{1'000};
constexpr Duration kPastPrepare{9'000};

struct WakeCase {
  const char* name;
  WakeState state;
  WakeInput input;
  WakeState next;
  bool wake;
};

class WakeTest : public ::testing::TestWithParam<WakeCase> {};

TEST_P(WakeTest, step) {
  const WakeStep step = StepWake(GetParam().state, GetParam().input);
  EXPECT_EQ(step.next, GetParam().next);
  EXPECT_EQ(step.wake, GetParam().wake);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, WakeTest,
    ::testing::Values(
        WakeCase{"first_pod_got_through",
                 WakeState::kWaiting,
                 {.served = true, .listed = true, .age = kYoung},
                 WakeState::kDone,
                 false},
        WakeCase{"served_claim_is_watched_until_it_is_listed",
                 WakeState::kWaiting,
                 {.served = true, .age = kPastPrepare},
                 WakeState::kWaiting,
                 false},
        WakeCase{
            "kubelet_found_no_plugin", WakeState::kWaiting, {.served = true, .age = Duration{12'000}}, WakeState::kDone, true},
        WakeCase{"young_claim_waits", WakeState::kWaiting, {.age = kYoung}, WakeState::kWaiting, false},
        WakeCase{"waited_longer_than_prepare", WakeState::kWaiting, {.age = kPastPrepare}, WakeState::kBlocked, false},
        WakeCase{
            "served_after_prepare_gave_up", WakeState::kBlocked, {.served = true, .age = kPastPrepare}, WakeState::kDone, true},
        WakeCase{"refused_claim_is_blocked_at_once",
                 WakeState::kWaiting,
                 {.refused = true, .age = kYoung},
                 WakeState::kBlocked,
                 false},
        WakeCase{"refusal_stands_although_node_is_able",
                 WakeState::kBlocked,
                 {.served = true, .refused = true},
                 WakeState::kBlocked,
                 false},
        WakeCase{"refusal_lifted", WakeState::kBlocked, {.served = true, .age = kYoung}, WakeState::kDone, true},
        WakeCase{"further_pod_whose_call_found_no_plugin_is_pushed_when_there_is_one",
                 WakeState::kDone,
                 {.served = true, .listed = true, .renewed = true, .age = kYoung},
                 WakeState::kDone,
                 true},
        WakeCase{"new_plugin_whose_daemon_is_not_ready_yet",
                 WakeState::kDone,
                 {.listed = true, .old = true, .renewed = true, .age = kYoung},
                 WakeState::kBlocked,
                 false},
        WakeCase{"pods_that_have_long_been_running_are_not_pushed_for_a_new_plugin",
                 WakeState::kDone,
                 {.served = true, .listed = true, .renewed = true, .age = kAllocatedLately},
                 WakeState::kDone,
                 false},
        WakeCase{"pushed_once_only", WakeState::kDone, {.served = true, .age = kPastPrepare}, WakeState::kDone, false},
        WakeCase{
            "running_pod_is_not_pushed_when_its_daemon_recovers", WakeState::kDone, {.listed = true}, WakeState::kDone, false},
        WakeCase{"old_claim_that_runs_is_left_alone",
                 WakeState::kWaiting,
                 {.served = true, .listed = true, .old = true},
                 WakeState::kDone,
                 false},
        WakeCase{"old_claim_that_never_got_through_is_pushed",
                 WakeState::kWaiting,
                 {.served = true, .old = true},
                 WakeState::kDone,
                 true},
        WakeCase{"old_claim_on_a_node_that_cannot_serve", WakeState::kWaiting, {.old = true}, WakeState::kBlocked, false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(WakeTest, asks_to_be_stepped_again_at_its_limits) {
  EXPECT_EQ(StepWake(WakeState::kWaiting, {.age = kYoung}).again, Duration{7'000});
  EXPECT_EQ(StepWake(WakeState::kWaiting, {.served = true, .age = kYoung}).again, Duration{11'000});
  EXPECT_EQ(StepWake(WakeState::kWaiting, {.served = true, .listed = true}).again, std::nullopt);
  EXPECT_EQ(StepWake(WakeState::kBlocked, {.age = kPastPrepare}).again, std::nullopt);
}

}  // namespace
}  // namespace cd::domain
