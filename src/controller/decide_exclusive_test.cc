// An exclusive IMEX domain from its creation to its removal, and the shared one beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/controller/decide_test_world.h"
#include "src/domain/gating.h"
#include "src/domain/isolation.h"

namespace cd::controller {
namespace {

using domain::Liveness;
using domain::testing::kBlue;
using domain::testing::kClique;
using domain::testing::kDomainUid;
using domain::testing::kRed;
using ::testing::HasSubstr;

// Red has isolationMode Domain; node a is in no domain and has a claim of red for all its slots.
struct ExclusiveWorld : DomainWorld {
  const std::string name = api::DomainName({kClique, kRed});

  ExclusiveWorld() {
    clique.name = name;
    clique.other_domains = {kDomainUid};
    has_domain = false;
    nodes = {domain::testing::Node("a")};
    KnowRed(api::AllocationMode::kSingle);
    Demand("a", kRed);
    demands[0].slots = 32;
    demands[0].whole_node = true;
  }
  void KnowRed(api::AllocationMode mode) {
    api::ComputeDomain red = domain::testing::Red();
    red.isolation_mode = api::IsolationMode::kDomain;
    red.allocation_mode = mode;
    known.cached[kRed] = domain::ViewOf(red);
  }
  // As it stands in the API with node a in it.
  void Create() {
    has_domain = true;
    domain = domain::NewDomain(name, known.cached, {});
    domain.meta.uid = "exclusive-uid";
    domain.meta.resource_version = "20";
    domain.members = {domain::testing::Member(0, "a")};
    domain.channels = {domain::testing::Lease(1, kRed)};
    nodes[0].domain = api::DomainAssignment{name, "exclusive-uid", 0};
  }
};

// Found by simulation: a second leader that had not heard of the ComputeDomain made it with other wishes, for life.
TEST(DecideExclusiveTest, lost_one_is_made_anew_with_what_its_owner_wishes_however_old_the_view_is) {
  ExclusiveWorld world;
  world.Create();
  world.has_domain = world.has_object = false;
  world.known.cached.clear();
  const DomainDecision asks = world.Decide();
  EXPECT_FALSE(asks.write);
  ASSERT_EQ(asks.look_up.size(), 1u);
  EXPECT_EQ(asks.look_up[0], (LookUp{"", kRed}));
  world.known.verified[kRed] = Liveness::kLive;
  EXPECT_FALSE(world.Decide().write) << "it cannot be decoded";
  EXPECT_TRUE(world.Decide().owner_unreadable);
  world.KnowRed(api::AllocationMode::kAll);
  const auto write = world.Decide().write;
  ASSERT_TRUE(write);
  EXPECT_EQ(write->allocation_mode, api::AllocationMode::kAll);
  world.known.cached.clear();
  world.known.verified[kRed] = Liveness::kGone;
  EXPECT_TRUE(world.Decide().write) << "its members leave by it";
}

TEST(DecideExclusiveTest, lost_one_asks_for_an_owner_that_is_said_to_be_deleted_because_so_is_one_that_cannot_be_decoded) {
  ExclusiveWorld world;
  world.Create();
  world.has_domain = world.has_object = false;
  world.known.cached.clear();
  world.known.deleted = {kRed};
  const DomainDecision asks = world.Decide();
  EXPECT_FALSE(asks.write);
  EXPECT_EQ(asks.look_up.size(), 1u);
}

TEST(DecideExclusiveTest, is_created_once_its_owner_was_seen_live) {
  ExclusiveWorld world;
  world.has_object = false;
  const DomainDecision asks = world.Decide();
  ASSERT_EQ(asks.verify.size(), 1u);
  EXPECT_FALSE(asks.write);
  world.known.verified[kRed] = Liveness::kLive;
  const auto write = world.Decide().write;
  ASSERT_TRUE(write);
  EXPECT_FALSE(api::IsMade(*write));
  EXPECT_EQ(write->mode, api::DomainMode::kExclusive) << "as it will be for life";
  EXPECT_TRUE(write->members.empty());
}

TEST(DecideExclusiveTest, is_made_with_node_and_lease_in_one_write) {
  ExclusiveWorld world;
  EXPECT_TRUE(world.Decide().look);
  world.LookNow();
  const DomainDecision asks = world.Decide();
  ASSERT_EQ(asks.verify.size(), 1u);
  EXPECT_FALSE(asks.write);
  world.known.verified[kRed] = Liveness::kLive;
  const auto write = world.Decide().write;
  ASSERT_TRUE(write);
  EXPECT_EQ(write->mode, api::DomainMode::kExclusive);
  EXPECT_EQ(write->compute_domain->uid, kRed);
  EXPECT_EQ(write->clique_id, kClique);
  ASSERT_EQ(write->members.size(), 1u);
  EXPECT_EQ(write->members[0].node, "a");
  ASSERT_EQ(write->channels.size(), 1u);
  EXPECT_EQ(write->channels[0].compute_domain.uid, kRed);
}

TEST(DecideExclusiveTest, is_not_created_for_an_owner_that_is_gone) {
  ExclusiveWorld world;
  world.has_object = false;
  world.LookNow();
  world.known.verified[kRed] = Liveness::kGone;
  const DomainDecision decision = world.Decide();
  EXPECT_FALSE(decision.NeedsReads());
  EXPECT_FALSE(decision.write);
}

TEST(DecideExclusiveTest, is_created_with_its_lease_while_the_node_is_still_a_member_of_the_shared_one) {
  ExclusiveWorld world;
  world.clique.members_elsewhere = {"a"};
  world.LookNow();
  world.known.verified[kRed] = Liveness::kLive;
  const auto write = world.Decide().write;
  ASSERT_TRUE(write);
  EXPECT_TRUE(write->members.empty());
  EXPECT_EQ(write->channels.size(), 1u);
}

TEST(DecideExclusiveTest, is_removed_when_its_last_node_has_left_and_none_belongs_in_it) {
  ExclusiveWorld world;
  world.Create();
  world.demands.clear();
  world.domain.members.clear();
  world.nodes[0].domain.reset();
  world.clique.wanted_elsewhere = {"a"};
  EXPECT_TRUE(world.Decide().look);
  world.LookNow();
  EXPECT_TRUE(world.Decide().remove);
  world.nodes[0].status.channels = {{"exclusive-uid", 1, kRed}};
  world.LookNow();
  EXPECT_FALSE(world.Decide().remove) << "a process may hold its channel";
}

TEST(DecideExclusiveTest, another_compute_domain_on_the_node_is_refused_by_name) {
  ExclusiveWorld world;
  world.Create();
  world.Know(kBlue, "blue");
  world.Demand("a", kBlue);
  const auto write = world.Decide().write;
  ASSERT_TRUE(write);
  ASSERT_EQ(write->refusals.size(), 1u);
  EXPECT_EQ(write->refusals[0].reason, "NodeIsExclusive");
  EXPECT_THAT(write->refusals[0].message, HasSubstr("team/red"));
}

TEST(DecideExclusiveTest, shared_domain_grants_nothing_to_an_exclusive_compute_domain) {
  DomainWorld world;
  world.domain.channels.clear();
  api::ComputeDomain red = domain::testing::Red();
  red.isolation_mode = api::IsolationMode::kDomain;
  world.known.cached[kRed] = domain::ViewOf(red);
  world.Demand("a", kRed);
  world.demands[0].whole_node = true;
  world.clique.wanted_elsewhere = {"a"};
  EXPECT_FALSE(world.Decide().write) << "and refuses nothing: the node is on its way";
  world.demands[0].whole_node = false;
  world.clique.wanted_elsewhere.clear();
  const auto write = world.Decide().write;
  ASSERT_TRUE(write);
  EXPECT_TRUE(write->channels.empty());
  ASSERT_EQ(write->refusals.size(), 1u);
  EXPECT_EQ(write->refusals[0].reason, "WholeNodeNeeded");
}

TEST(DecideExclusiveTest, pod_whose_gang_ran_out_of_time_is_told_so_in_the_domain_its_node_waits_in) {
  DomainWorld world;
  api::ComputeDomain red = domain::testing::Red();
  red.isolation_mode = api::IsolationMode::kDomain;
  red.gating = api::Gating{};
  red.status.conditions = {{"Formed", "False", domain::kGateTimedOut, "not formed within 600 s", red.meta.generation, ""}};
  world.known.cached[kRed] = domain::ViewOf(red);
  world.domain.channels.clear();
  world.Demand("a", kRed);
  world.demands[0].slots = 32;
  world.demands[0].whole_node = true;
  world.clique.wanted_elsewhere = {"a"};
  const auto write = world.Decide().write;
  ASSERT_TRUE(write);
  ASSERT_EQ(write->refusals.size(), 1u);
  EXPECT_EQ(write->refusals[0].reason, "GateTimedOut");
  EXPECT_THAT(write->refusals[0].message, HasSubstr("not formed within 600 s"));
}

TEST(DecideExclusiveTest, clique_keeps_its_shared_domain_while_all_nodes_are_in_exclusive_ones) {
  DomainWorld world;
  world.domain.members.clear();
  world.domain.channels.clear();
  for (api::ImexNode& node : world.nodes) node.domain.reset();
  world.clique.wanted_elsewhere = {"a", "b"};
  world.LookNow();
  EXPECT_FALSE(world.Decide().remove);
}

}  // namespace
}  // namespace cd::controller
