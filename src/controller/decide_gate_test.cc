#include "src/controller/decide_gate.h"

#include <gtest/gtest.h>

#include "src/controller/decide_compute_domain.h"
#include "src/domain/testing.h"

namespace cd::controller {
namespace {

using namespace domain::testing;  // NOLINT

// Red, gated, with a pod on a and one on b, both ready and connected for long enough; tests spoil it.
struct GateWorld {
  api::ComputeDomain cd = Red();
  api::ImexDomain domain = Domain();
  api::ImexNode a = Assigned("a", 0), b = Assigned("b", 1);
  GateSnapshot gate;

  GateWorld() {
    cd.gating = api::Gating{.min_nodes = 2};
    domain.members = {Member(0, "a"), Member(1, "b")};
    domain.channels = {Lease(5, kRed)};
    domain.channels[0].released = false;
    a.status.daemon.connected = {1};
    b.status.daemon.connected = {0};
    gate.claims = {{"claim-a", {}, Duration{7'000}, false}, {"claim-b", {}, Duration{6'000}, false}};
    gate.unchanged = Duration{5'000};
  }
  ComputeDomainDecision Decide() const {
    ComputeDomainSnapshot in;
    in.cd = std::make_shared<const api::ComputeDomain>(cd);
    in.claim_template = {true, true, "template-uid", ""};
    in.nodes = {"a", "b"};
    in.reports = All({a, b});
    in.domains = {{kClique, std::make_shared<const api::ImexDomain>(domain)}};
    in.now = "2026-11-30T18:00:00Z";
    in.gate = gate;
    return DecideComputeDomain(in);
  }
};

TEST(DecideGateTest, formed_gang_is_released_as_a_whole) {
  EXPECT_EQ(GateWorld().Decide().release, (std::set<std::string>{"claim-a", "claim-b"}));
}

TEST(DecideGateTest, held_gang_is_looked_at_again_when_it_has_settled) {
  GateWorld world;
  world.gate.unchanged = Duration{1'000};
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.release.empty());
  EXPECT_EQ(decision.gate_due, Duration{4'000});
}

TEST(DecideGateTest, one_direction_of_a_connection_is_not_enough) {
  GateWorld world;
  world.b.status.daemon.connected.clear();
  EXPECT_TRUE(world.Decide().release.empty());
}

TEST(DecideGateTest, without_gating_nothing_is_decided) {
  GateWorld world;
  world.cd.gating.reset();
  EXPECT_TRUE(world.Decide().release.empty());
  EXPECT_FALSE(world.Decide().gate_due);
}

TEST(DecideGateTest, the_gang_that_a_former_process_gave_up_stays_given_up) {
  GateWorld world;
  for (GatedClaim& claim : world.gate.claims) claim.old = true;
  world.cd.status.conditions = {{"Formed", "False", domain::kGateTimedOut, "late", 1, ""}};
  EXPECT_TRUE(world.Decide().release.empty());
  world.cd.status.conditions[0].observed_generation = 0;
  EXPECT_FALSE(world.Decide().release.empty()) << "spec.gating was edited since";
}

TEST(DecideGateTest, state_changes_with_the_gang_and_with_what_it_lacks) {
  GateWorld world;
  const std::string state = GateState(world.gate, {2, ""});
  EXPECT_EQ(GateState(world.gate, {2, ""}), state);
  EXPECT_NE(GateState(world.gate, {2, "node a"}), state);
  world.gate.claims.pop_back();
  EXPECT_NE(GateState(world.gate, {2, ""}), state);
}

}  // namespace
}  // namespace cd::controller
