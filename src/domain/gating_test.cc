#include "src/domain/gating.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cd::domain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two nodes, ready, connected and quiet for long enough; minNodes 2. Tests spoil it.
GateInput Complete() {
  GateInput input;
  input.gating.min_nodes = 2;
  input.claims = {"claim-1", "claim-2"};
  input.nodes = 2;
  input.unchanged = Duration{5'000};
  input.waited = Duration{6'000};
  return input;
}

Workload Of(const std::string& name, std::optional<int> declared, int present, bool by_readiness = false) {
  return {name, declared, present, by_readiness};
}

TEST(GatingTest, complete_and_settled_gang_is_let_go) {
  const auto decision = DecideGate(Complete());
  EXPECT_TRUE(decision.release);
  EXPECT_EQ(decision.formed.status, "True");
}

TEST(GatingTest, it_settles_first) {
  GateInput input = Complete();
  input.unchanged = Duration{1'200};
  const auto decision = DecideGate(input);
  EXPECT_FALSE(decision.release);
  EXPECT_EQ(decision.formed.reason, "Settling");
  EXPECT_THAT(decision.formed.message, HasSubstr("2 nodes stay connected for 5 s"));
  EXPECT_EQ(decision.again, Duration{3'800});
}

TEST(GatingTest, too_few_nodes_wait_and_are_counted) {
  GateInput input = Complete();
  input.nodes = 1;
  const auto decision = DecideGate(input);
  EXPECT_FALSE(decision.release);
  EXPECT_EQ(decision.formed.reason, "NodesMissing");
  EXPECT_THAT(decision.formed.message, HasSubstr("1 node of 2 (spec.gating.minNodes) have a pod"));
  EXPECT_EQ(decision.again, Duration{594'000}) << "the time-out";
}

TEST(GatingTest, nodes_that_are_not_ready_wait) {
  GateInput input = Complete();
  input.missing = "node a: its IMEX daemon is not ready";
  const auto decision = DecideGate(input);
  EXPECT_FALSE(decision.release);
  EXPECT_THAT(decision.formed.message, HasSubstr("node a"));
}

TEST(GatingTest, without_pods_nothing_waits) {
  GateInput input = Complete();
  input.claims.clear();
  input.waited = Duration{10'000'000};
  const auto decision = DecideGate(input);
  EXPECT_FALSE(decision.release);
  EXPECT_EQ(decision.formed.reason, "NoNodes");
}

// ---- who declares how many

TEST(GatingTest, without_min_nodes_the_owners_tell) {
  GateInput input = Complete();
  input.gating.min_nodes.reset();
  const auto unread = DecideGate(input);
  EXPECT_FALSE(unread.release);
  EXPECT_EQ(unread.formed.reason, "OwnersUnknown");
  EXPECT_THAT(unread.formed.message, HasSubstr("the owners of the pods are being read"));
  input.workloads = {Of("Job train", 3, 2)};
  const auto waits = DecideGate(input);
  EXPECT_FALSE(waits.release);
  EXPECT_EQ(waits.formed.reason, "PodsMissing");
  EXPECT_THAT(waits.formed.message, AllOf(HasSubstr("2 of 3"), HasSubstr("Job train")));
  input.workloads = {Of("Job train", 2, 2), Of("ReplicaSet serve", 1, 1)};
  EXPECT_TRUE(DecideGate(input).release);
}

TEST(GatingTest, owner_that_tells_nothing_asks_for_min_nodes) {
  GateInput input = Complete();
  input.gating.min_nodes.reset();
  input.workloads = {Of("MPIJob train", std::nullopt, 2)};
  const auto decision = DecideGate(input);
  EXPECT_FALSE(decision.release);
  EXPECT_EQ(decision.formed.reason, "MinNodesNeeded");
  EXPECT_THAT(decision.formed.message, AllOf(HasSubstr("MPIJob train"), HasSubstr("set spec.gating.minNodes")));
}

TEST(GatingTest, owner_that_waits_for_readiness_is_named_instead_of_waited_for) {
  GateInput input = Complete();
  input.nodes = 1;
  input.workloads = {Of("StatefulSet train", 3, 1, true)};
  for (const std::optional<int> min_nodes : {std::optional<int>(3), std::optional<int>()}) {
    input.gating.min_nodes = min_nodes;
    const auto decision = DecideGate(input);
    EXPECT_FALSE(decision.release);
    EXPECT_EQ(decision.formed.reason, "OwnerWaitsForReadiness");
    EXPECT_THAT(decision.formed.message,
                AllOf(HasSubstr("StatefulSet train"), HasSubstr("a held pod never is"), HasSubstr("Parallel")));
  }
  input.gating.min_nodes = 1;
  EXPECT_TRUE(DecideGate(input).release) << "minNodes that it creates at once is enough";
}

// ---- time-outs

TEST(GatingTest, fail_says_what_was_missing_and_stays) {
  GateInput input = Complete();
  input.nodes = 1;
  input.waited = Duration{600'000};
  const auto decision = DecideGate(input);
  EXPECT_FALSE(decision.release);
  EXPECT_FALSE(decision.again);
  EXPECT_EQ(decision.formed.reason, kGateTimedOut);
  EXPECT_THAT(decision.formed.message, AllOf(HasSubstr("spec.gating.timeoutSeconds"), HasSubstr("1 node of 2"),
                                             HasSubstr("its pods are refused until all of them are deleted")));
  input.nodes = 2;
  EXPECT_FALSE(DecideGate(input).release) << "a pod that was refused for good is not started after all";
}

TEST(GatingTest, an_earlier_process_verdict_stands) {
  GateInput input = Complete();
  input.waited = Duration{0};
  input.timed_out_before = true;
  EXPECT_EQ(DecideGate(input).formed.reason, kGateTimedOut);
}

TEST(GatingTest, release_lets_go_with_what_there_is) {
  GateInput input = Complete();
  input.nodes = 1;
  input.gating.on_timeout = api::OnTimeout::kRelease;
  input.waited = Duration{599'999};
  EXPECT_FALSE(DecideGate(input).release);
  input.waited = Duration{600'000};
  const auto decision = DecideGate(input);
  EXPECT_TRUE(decision.release);
  EXPECT_EQ(decision.formed.status, "False") << "it has not formed";
  EXPECT_EQ(decision.formed.reason, "Released");
}

TEST(GatingTest, longer_time_given_while_waiting_counts) {
  GateInput input = Complete();
  input.nodes = 1;
  input.waited = Duration{700'000};
  input.gating.timeout_seconds = 800;
  const auto decision = DecideGate(input);
  EXPECT_EQ(decision.formed.reason, "NodesMissing");
  EXPECT_EQ(decision.again, Duration{100'000});
}

// ---- afterwards

TEST(GatingTest, open_gate_stays_formed_when_a_node_breaks) {
  GateInput input = Complete();
  input.open = true;
  input.before = api::Condition{"Formed", "True", "Formed", "", 1, ""};
  input.missing = "node a: its IMEX daemon is not ready";
  const auto decision = DecideGate(input);
  EXPECT_FALSE(decision.release);
  EXPECT_EQ(decision.formed.status, "True");
}

TEST(GatingTest, gang_let_go_by_time_forms_later_or_says_what_is_missing) {
  GateInput input = Complete();
  input.open = true;
  input.nodes = 1;
  EXPECT_EQ(DecideGate(input).formed.reason, "Released");
  input.nodes = 2;
  EXPECT_EQ(DecideGate(input).formed.status, "True");
}

}  // namespace
}  // namespace cd::domain
