// One step of an IMEXDomain for ComputeDomains with gating or partitionPolicy Single.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/controller/decide_test_world.h"

namespace cd::controller {
namespace {

using namespace domain::testing;  // NOLINT
using api::LeaseState;
using domain::Liveness;
using ::testing::HasSubstr;

constexpr char kOther[] = "3f0e6c1a-0000-4000-8000-000000000001.2";

// Red is gated, holds channel 5, and has a claim on a and one on b, which are READY and connected.
struct GatedWorld : DomainWorld {
  GatedWorld() {
    Gate();
    domain.channels[0].released = false;
    for (const std::string node : {"a", "b"}) demands.push_back({node, "team", node, {kRed, {}}, "claim-" + node});
    nodes[0].status.daemon.connected = {1};
    nodes[1].status.daemon.connected = {0};
  }
  domain::GateView& Gate() {
    known.cached[kRed].gated = true;
    return known.gates[kRed];
  }
};

TEST(GatedDomainTest, held_gang_costs_nothing) {
  EXPECT_FALSE(GatedWorld().Decide().write);
}

TEST(GatedDomainTest, lease_is_born_held) {
  GatedWorld world;
  world.domain.channels.clear();
  world.known.verified[kRed] = Liveness::kLive;
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_FALSE(decision.write->channels[0].released);
  EXPECT_TRUE(decision.write->channels[0].released_claims.empty());
}

TEST(GatedDomainTest, order_lets_go_in_one_write) {
  GatedWorld world;
  world.Gate().release = {"claim-a", "claim-b", "claim-of-another-clique"};
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->channels[0].released_claims, (std::vector<std::string>{"claim-a", "claim-b"}));
  EXPECT_FALSE(decision.write->channels[0].released);
}

TEST(GatedDomainTest, late_joiner_waits_for_its_connections) {
  GatedWorld world;
  world.Gate().open = true;
  world.domain.channels[0].released_claims = {"claim-a"};
  world.nodes[1].status.daemon.connected.clear();
  EXPECT_FALSE(world.Decide().write);
  world.nodes[1].status.daemon.connected = {0};
  ASSERT_TRUE(world.Decide().write);
  EXPECT_EQ(world.Decide().write->channels[0].released_claims, (std::vector<std::string>{"claim-a", "claim-b"}));
}

TEST(GatedDomainTest, gating_removed_lets_all_go) {
  GatedWorld world;
  world.known.gates.clear();
  world.known.cached[kRed].gated = false;
  ASSERT_TRUE(world.Decide().write);
  EXPECT_TRUE(world.Decide().write->channels[0].released);
}

TEST(GatedDomainTest, who_is_held_for_good_is_refused_with_the_reason) {
  GatedWorld world;
  world.domain.channels[0].released_claims = {"claim-a"};
  world.known.cached[kRed].gate_refusal = "not formed within spec.gating.timeoutSeconds";
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  ASSERT_EQ(decision.write->refusals.size(), 1U);
  EXPECT_EQ(decision.write->refusals[0].node, "b");
  EXPECT_EQ(decision.write->refusals[0].reason, "GateTimedOut");
  EXPECT_THAT(decision.write->refusals[0].message, HasSubstr("spec.gating.timeoutSeconds"));
}

// What was released is lost with the domain. Who runs is not held by that, and nobody else is let go by it.
TEST(GatedDomainTest, rebuilt_lease_lets_nobody_go) {
  GatedWorld world;
  world.has_domain = false;
  world.nodes[0] = Holding(world.nodes[0], 5, kRed);
  world.known.verified[kRed] = Liveness::kLive;
  world.LookNow();
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  ASSERT_EQ(decision.write->channels.size(), 1U);
  EXPECT_FALSE(decision.write->channels[0].released);
  EXPECT_TRUE(decision.write->channels[0].released_claims.empty());
}

// Red runs in one clique only, and has no lease here.
struct SingleWorld : DomainWorld {
  SingleWorld() {
    domain.channels.clear();
    known.cached[kRed].partition_policy = api::PartitionPolicy::kSingle;
    known.verified[kRed] = Liveness::kLive;
  }
  std::string& Partition() { return known.cached[kRed].partition; }
};

TEST(SingleDomainTest, nothing_is_granted_before_the_partition_is_chosen) {
  SingleWorld world;
  world.Demand("a", kRed);
  EXPECT_FALSE(world.Decide().write);
  world.Partition() = kClique;
  ASSERT_TRUE(world.Decide().write);
  EXPECT_EQ(world.Decide().write->channels.size(), 1U);
}

TEST(SingleDomainTest, pod_in_another_partition_is_refused_naming_both) {
  SingleWorld world;
  world.Demand("a", kRed);
  world.Partition() = kOther;
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_TRUE(decision.write->channels.empty());
  ASSERT_EQ(decision.write->refusals.size(), 1U);
  EXPECT_EQ(decision.write->refusals[0].reason, "OtherPartition");
  EXPECT_THAT(decision.write->refusals[0].message, HasSubstr(kOther));
  EXPECT_THAT(decision.write->refusals[0].message, HasSubstr(kClique));
}

TEST(SingleDomainTest, lease_left_behind_is_drained_when_no_pod_is_there) {
  SingleWorld world;
  world.domain.channels = {Lease(5, kRed)};
  for (const std::string partition : {"", kOther}) {
    world.Partition() = partition;
    ASSERT_TRUE(world.Decide().write);
    EXPECT_EQ(world.Decide().write->channels[0].state, LeaseState::kDraining);
  }
}

TEST(SingleDomainTest, lease_is_left_alone_while_a_pod_is_there_and_no_other_partition_is_chosen) {
  SingleWorld world;
  world.domain.channels = {Lease(5, kRed)};
  world.Demand("a", kRed);
  EXPECT_FALSE(world.Decide().write);
}

// Of a domain that was lost: what runs there is of no pod, or the other one would not have been chosen.
TEST(SingleDomainTest, lease_made_anew_is_drained_where_another_partition_is_chosen) {
  SingleWorld world;
  world.domain.channels = {Lease(5, kRed)};
  world.Partition() = kOther;
  world.Demand("a", kRed);
  ASSERT_TRUE(world.Decide().write);
  EXPECT_EQ(world.Decide().write->channels[0].state, LeaseState::kDraining);
}

TEST(SingleDomainTest, back_before_the_number_is_free_it_has_the_same_one) {
  SingleWorld world;
  world.domain.channels = {Lease(5, kRed, LeaseState::kDraining)};
  world.nodes[1] = Holding(world.nodes[1], 5, kRed);
  world.Partition() = kClique;
  world.Demand("a", kRed);
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  ASSERT_EQ(decision.write->channels.size(), 1U);
  EXPECT_EQ(decision.write->channels[0].channel, 5);
  EXPECT_EQ(decision.write->channels[0].state, LeaseState::kActive);
}

TEST(SingleDomainTest, draining_lease_of_a_domain_that_is_gone_stays_so) {
  SingleWorld world;
  world.domain.channels = {Lease(5, kRed, LeaseState::kDraining)};
  world.nodes[1] = Holding(world.nodes[1], 5, kRed);
  world.Partition() = kClique;
  world.known.verified[kRed] = Liveness::kGone;
  world.Demand("a", kRed);
  EXPECT_FALSE(world.Decide().write);
}

}  // namespace
}  // namespace cd::controller
