#include "src/domain/exemptions.h"

#include <gtest/gtest.h>

#include "src/domain/testing.h"

namespace cd::domain {
namespace {

using namespace testing;  // NOLINT

api::ComputeDomain OptionalRed() {
  api::ComputeDomain cd = Red();
  cd.fabric_policy = api::FabricPolicy::kOptional;
  return cd;
}

// Node a surely without fabric, with a claim of red, which was read live; tests spoil it.
struct World {
  api::ImexNode node = WithoutFabric("a");
  bool member = false;
  std::vector<Demand> demands{{"a", "team", "claim", {kRed, {}}}};
  KnownDomains known;

  World() {
    known.cached[kRed] = ViewOf(OptionalRed());
    known.verified[kRed] = Liveness::kLive;
  }
  ExemptionDecision Decide() const { return DecideExemptions(node, member, demands, known); }
};

const std::vector<api::Exemption> kRedExempt{{{"team", "red", kRed}}};

TEST(ExemptionsTest, optional_domain_runs_on_a_node_without_fabric) {
  EXPECT_EQ(World().Decide().exemptions, kRedExempt);
}

TEST(ExemptionsTest, domain_with_isolation_domain_needs_the_whole_node_and_says_so) {
  World world;
  api::ComputeDomain red = OptionalRed();
  red.isolation_mode = api::IsolationMode::kDomain;
  world.known.cached[kRed] = ViewOf(red);
  EXPECT_TRUE(world.Decide().exemptions.empty());
  world.demands[0].slots = 32;
  world.demands[0].whole_node = true;
  const auto exemptions = world.Decide().exemptions;
  ASSERT_EQ(exemptions.size(), 1U);
  EXPECT_TRUE(exemptions[0].exclusive);
}

TEST(ExemptionsTest, owner_is_read_live_first_and_once) {
  World world;
  world.known.verified.clear();
  world.demands.push_back(world.demands[0]);
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.exemptions.empty());
  EXPECT_EQ(decision.verify, (std::vector<api::ObjectRef>{{"team", "red", kRed}}));
}

TEST(ExemptionsTest, owner_that_turns_out_gone_gets_none) {
  World world;
  world.known.verified[kRed] = Liveness::kGone;
  EXPECT_TRUE(world.Decide().exemptions.empty());
  EXPECT_TRUE(world.Decide().verify.empty());
}

TEST(ExemptionsTest, required_domain_gets_none) {
  World world;
  world.known.cached[kRed] = ViewOf(Red());
  EXPECT_TRUE(world.Decide().exemptions.empty());
  EXPECT_TRUE(world.Decide().verify.empty());
}

TEST(ExemptionsTest, claim_of_another_namespace_gets_none) {
  World world;
  world.demands[0].ns = "rivals";
  EXPECT_TRUE(world.Decide().exemptions.empty());
}

// What looks like "no fabric" for a moment must never cost a workload its channel.
TEST(ExemptionsTest, anything_but_evidence_of_no_fabric_exempts_nobody) {
  for (const auto state :
       {api::FabricState::kForming, api::FabricState::kDegraded, api::FabricState::kMixed, api::FabricState::kReady}) {
    World world;
    world.node.status.fabric = state;
    EXPECT_TRUE(world.Decide().exemptions.empty()) << static_cast<int>(state);
  }
  World silent_driver;
  silent_driver.node.status.driver_version.clear();
  EXPECT_TRUE(silent_driver.Decide().exemptions.empty());
  World assigned;
  assigned.node.domain = api::DomainAssignment{kClique, kDomainUid, 0};
  EXPECT_TRUE(assigned.Decide().exemptions.empty());
  World member;
  member.member = true;
  EXPECT_TRUE(member.Decide().exemptions.empty());
  World holding;
  holding.node = Holding(holding.node, 5, kBlue);
  EXPECT_TRUE(holding.Decide().exemptions.empty());
}

TEST(ExemptionsTest, it_stays_without_pods_and_goes_with_the_domain) {
  World world;
  world.node.exemptions = kRedExempt;
  world.demands.clear();
  EXPECT_EQ(world.Decide().exemptions, kRedExempt);
  world.known.cached[kRed].deleting = true;
  EXPECT_TRUE(world.Decide().exemptions.empty());
}

TEST(ExemptionsTest, it_goes_when_the_node_has_a_fabric_after_all) {
  World world;
  world.node = Node("a");
  world.node.exemptions = kRedExempt;
  EXPECT_TRUE(world.Decide().exemptions.empty());
}

}  // namespace
}  // namespace cd::domain
