#include "src/controller/decide_node.h"

#include <gtest/gtest.h>

#include "src/controller/decide_test_world.h"

namespace cd::controller {
namespace {

using namespace domain::testing;  // NOLINT
using domain::WakeState;

// Node a with one claim of red, served; tests spoil it.
struct NodeWorld {
  api::ImexNode node = Assigned("a", 0);
  api::ImexDomain domain = Domain();
  bool has_domain = true;
  domain::KnownDomains known;
  std::vector<WaitingClaim> claims;
  std::string daemon_revision;
  std::vector<api::ImexNode> others;  // of the clique

  NodeWorld() {
    domain.members = {Member(0, "a")};
    domain.channels = {Lease(5, kRed)};
    node = Holding(node, 5, kRed);
    known.cached[kRed] = domain::ViewOf(Red());
    WaitingClaim claim;
    claim.demand = {"a", "team", "claim", {kRed, {}}};
    claim.uid = "claim-uid";
    claim.pods = {{"team", "pod", "pod-uid"}};
    claims = {claim};
  }

  NodeDecision Decide() const {
    NodeSnapshot snapshot;
    snapshot.node = std::make_shared<const api::ImexNode>(node);
    std::vector<api::ImexNode> nodes = others;
    nodes.push_back(node);
    snapshot.clique = CliqueOf(domain, nodes);
    if (!has_domain) snapshot.clique->domain.reset();
    snapshot.known = known;
    snapshot.claims = claims;
    snapshot.daemon_revision = daemon_revision;
    return DecideNode(snapshot);
  }
};

TEST(DecideNodeTest, served_node_needs_nothing) {
  const auto decision = NodeWorld().Decide();
  EXPECT_FALSE(decision.write);
  EXPECT_TRUE(decision.wake.empty());
  EXPECT_FALSE(decision.again);
  EXPECT_EQ(decision.states, (std::vector<WakeRecord>{{"claim-uid", WakeState::kDone, ""}}));
}

TEST(DecideNodeTest, new_member_is_told_its_slot) {
  NodeWorld world;
  world.node = Node("a");
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.write);
  EXPECT_EQ(decision.domain, (api::DomainAssignment{kClique, kDomainUid, 0}));
  EXPECT_TRUE(decision.refusals.empty());
}

TEST(DecideNodeTest, assignment_outlives_a_lost_domain) {
  NodeWorld world;
  world.has_domain = false;
  EXPECT_FALSE(world.Decide().write);
}

TEST(DecideNodeTest, node_without_fabric_says_so_to_each_claim) {
  NodeWorld world;
  world.node = Node("a");
  world.domain.members.clear();
  world.node.status.fabric = api::FabricState::kNone;
  world.node.status.clique_ids.clear();
  const auto decision = world.Decide();
  ASSERT_EQ(decision.refusals.size(), 1U);
  EXPECT_EQ(decision.refusals[0].reason, "NoFabric");
  EXPECT_EQ(decision.refusals[0].node, "");
  EXPECT_EQ(decision.states[0].state, WakeState::kWaiting) << "the refusal is not written yet";
}

TEST(DecideNodeTest, optional_domain_gets_an_exemption_on_a_node_without_fabric) {
  NodeWorld world;
  world.node = WithoutFabric("a");
  world.domain.members.clear();
  world.known.cached[kRed].fabric_policy = api::FabricPolicy::kOptional;
  EXPECT_EQ(world.Decide().verify.size(), 1U);
  world.known.verified[kRed] = domain::Liveness::kLive;
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.write);
  EXPECT_TRUE(decision.refusals.empty());
  ASSERT_EQ(decision.exemptions.size(), 1U);
  EXPECT_TRUE(decision.without_channel.empty()) << "told when it stands";

  world.node.exemptions = decision.exemptions;
  const auto next = world.Decide();
  EXPECT_FALSE(next.write);
  EXPECT_EQ(next.without_channel.size(), 1U);
  EXPECT_EQ(next.states[0].state, WakeState::kDone);
  world.claims[0].state = WakeState::kDone;
  EXPECT_TRUE(world.Decide().without_channel.empty()) << "and once";
}

TEST(DecideNodeTest, pod_refused_before_it_was_exempt_is_woken) {
  NodeWorld world;
  world.node = WithoutFabric("a");
  world.domain.members.clear();
  world.known.cached[kRed].fabric_policy = api::FabricPolicy::kOptional;
  world.node.exemptions = {{{"team", "red", kRed}}};
  world.claims[0].state = WakeState::kBlocked;
  EXPECT_EQ(world.Decide().wake, world.claims[0].pods);
}

TEST(DecideNodeTest, full_domain_is_refused_in_words) {
  NodeWorld world;
  world.node = Node("a");
  world.domain.node_slots = 1;
  world.domain.members = {Member(0, "other")};
  EXPECT_EQ(world.Decide().refusals.at(0).reason, "NoFreeSlot");
}

TEST(DecideNodeTest, node_with_foreign_channels_says_so) {
  NodeWorld world;
  world.node = Holding(Node("a"), 9, "gone");
  const auto decision = world.Decide();
  EXPECT_EQ(decision.domain, std::nullopt);
  EXPECT_EQ(decision.refusals.at(0).reason, "HoldsForeignChannels");
}

TEST(DecideNodeTest, refusals_go_when_the_node_is_assigned) {
  NodeWorld world;
  world.node.refusals = {{"", kRed, "NoFabric", "m"}};
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.write);
  EXPECT_TRUE(decision.refusals.empty());
  EXPECT_TRUE(decision.wake.empty()) << "the pod would read the refusal that still stands";
  EXPECT_EQ(decision.states[0].state, WakeState::kBlocked);
  world.node.refusals.clear();
  world.claims[0].state = WakeState::kBlocked;
  EXPECT_EQ(world.Decide().wake, (std::vector<api::ObjectRef>{{"team", "pod", "pod-uid"}}));
}

TEST(DecideNodeTest, pod_whose_call_the_plugin_lost_is_woken_once_for_each_loss) {
  NodeWorld world;
  world.claims[0].state = WakeState::kDone;
  world.claims[0].calls = "";
  world.node.status.lost_prepares = {{"claim-uid", "10:00"}, {"other-claim", "10:01"}};
  auto decision = world.Decide();
  EXPECT_EQ(decision.wake.size(), 1U);
  world.claims[0].calls = decision.states[0].calls;
  EXPECT_TRUE(world.Decide().wake.empty());
  world.node.status.lost_prepares[0].time = "10:05";
  EXPECT_EQ(world.Decide().wake.size(), 1U);
  world.node.status.lost_prepares = {{"other-claim", "10:06"}};
  world.claims[0].calls.reset();
  EXPECT_TRUE(world.Decide().wake.empty()) << "not its own";
}

TEST(DecideNodeTest, late_daemon_wakes_each_waiting_pod_once) {
  NodeWorld world;
  world.claims.push_back(world.claims[0]);
  world.claims[1].uid = "second-claim-of-the-pod";
  for (auto& claim : world.claims) claim.age = Duration{9'000};
  world.node.status.daemon.state = api::DaemonState::kStarting;
  auto decision = world.Decide();
  EXPECT_TRUE(decision.wake.empty());
  for (auto& claim : world.claims) claim.state = WakeState::kBlocked;
  world.node.status.daemon.state = api::DaemonState::kReady;
  decision = world.Decide();
  EXPECT_EQ(decision.wake.size(), 1U);
}

TEST(DecideNodeTest, daemon_of_another_revision_is_replaced_when_the_node_is_idle) {
  NodeWorld world;
  world.daemon_revision = "new";
  world.node.status.daemon.revision = "old";
  world.node.status.daemon.pod_uid = "former";
  EXPECT_FALSE(world.Decide().write) << "a pod runs";
  world.claims.clear();
  EXPECT_FALSE(world.Decide().write) << "its processes may live on";
  world.node.status.channels.clear();
  EXPECT_TRUE(world.Decide().write);
  const std::string token = world.Decide().maintenance;
  EXPECT_EQ(token, api::ReplacementToken("former"));
  world.node.maintenance = world.node.status.maintenance_acknowledged = token;
  EXPECT_FALSE(world.Decide().write);
  EXPECT_EQ(world.Decide().delete_pod, "former");
  world.node.status.daemon.revision = "new";
  world.node.status.daemon.pod_uid = "next";
  EXPECT_TRUE(world.Decide().write);
  EXPECT_EQ(world.Decide().maintenance, "");
}

// Found by simulation: the other one may leave the clique in the middle, and nothing tells that of this node.
TEST(DecideNodeTest, node_whose_daemon_waits_for_its_turn_is_looked_at_again) {
  NodeWorld world;
  world.daemon_revision = "new";
  world.claims.clear();
  world.node.status.channels.clear();
  world.node.status.daemon.pod_uid = "former";
  world.others = {Assigned("b", 1)};
  world.others[0].maintenance = world.others[0].status.maintenance_acknowledged = api::ReplacementToken("of-b");
  EXPECT_EQ(world.Decide().maintenance, "");
  EXPECT_EQ(world.Decide().again, Duration{30'000});
  world.others.clear();
  EXPECT_NE(world.Decide().maintenance, "");
  EXPECT_EQ(world.Decide().again, std::nullopt);
}

TEST(DecideNodeTest, pod_that_came_during_a_maintenance_is_woken_after_it) {
  NodeWorld world;
  world.node.status.channels.clear();
  world.node.maintenance = world.node.status.maintenance_acknowledged = "by-hand";
  world.claims[0].age = Duration(9'000);
  EXPECT_EQ(world.Decide().states[0].state, WakeState::kBlocked);
  world.claims[0].state = WakeState::kBlocked;
  world.node.maintenance.clear();
  world.node.status.maintenance_acknowledged.clear();
  EXPECT_EQ(world.Decide().wake.size(), 1U);
}

TEST(DecideNodeTest, young_claim_without_lease_is_looked_at_again) {
  NodeWorld world;
  world.domain.channels.clear();
  world.node = Assigned("a", 0);
  EXPECT_EQ(world.Decide().again, Duration{8'000});
}

}  // namespace
}  // namespace cd::controller
