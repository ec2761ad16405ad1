#include "src/controller/decide_domain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/controller/decide_test_world.h"

namespace cd::controller {
namespace {

using namespace domain::testing;  // NOLINT
using api::LeaseState;
using domain::Liveness;
using ::testing::HasSubstr;

TEST(DecideDomainTest, settled_world_asks_for_nothing) {
  const auto decision = DomainWorld().Decide();
  EXPECT_FALSE(decision.NeedsReads());
  EXPECT_FALSE(decision.write);
  EXPECT_FALSE(decision.remove);
}

TEST(DecideDomainTest, pods_of_a_domain_with_lease_cost_nothing) {
  DomainWorld world;
  world.Demand("a", kRed);
  world.Demand("b", kRed);
  EXPECT_FALSE(world.Decide().NeedsReads());
  EXPECT_FALSE(world.Decide().write);
}

TEST(DecideDomainTest, lease_is_granted_only_after_a_live_read) {
  DomainWorld world;
  world.Know(kBlue, "blue");
  world.Demand("a", kBlue);
  world.Demand("b", kBlue);
  auto decision = world.Decide();
  EXPECT_EQ(decision.verify, (std::vector<api::ObjectRef>{{"team", "blue", kBlue}}));
  EXPECT_FALSE(decision.write);
  world.known.verified[kBlue] = Liveness::kLive;
  decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->channels.size(), 2U);
  EXPECT_EQ(decision.write->channels[1], Lease(6, kBlue));
  EXPECT_EQ(decision.write->meta.resource_version, "10");
}

TEST(DecideDomainTest, domain_that_is_gone_by_the_live_read_gets_no_lease) {
  for (const Liveness liveness : {Liveness::kGone, Liveness::kDeleting}) {
    DomainWorld world;
    world.Know(kBlue, "blue");
    world.Demand("a", kBlue);
    world.known.verified[kBlue] = liveness;
    EXPECT_FALSE(world.Decide().write);
  }
}

TEST(DecideDomainTest, granted_number_is_none_that_a_node_still_lists) {
  DomainWorld world;
  world.nodes[0] = Holding(world.nodes[0], 6, "gone");
  world.Know(kBlue, "blue");
  world.Demand("b", kBlue);
  world.known.verified[kBlue] = Liveness::kLive;
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->channels.back().channel, 7);
}

TEST(DecideDomainTest, several_changes_go_in_one_update) {
  DomainWorld world;
  world.nodes.push_back(Node("c"));
  world.Know(kBlue, "blue");
  world.known.verified[kBlue] = Liveness::kLive;
  world.Demand("c", kBlue);
  world.nodes[0].status.daemon.address = "10.1.1.1";
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->members.size(), 3U);
  EXPECT_EQ(decision.write->members[0].address, "10.1.1.1");
  EXPECT_NE(api::FindLease(*decision.write, kBlue), nullptr);
}

TEST(DecideDomainTest, deleted_owner_is_drained_only_after_a_live_read) {
  DomainWorld world;
  world.known.cached.clear();
  EXPECT_EQ(world.Decide().verify, (std::vector<api::ObjectRef>{{"team", "red", kRed}}));
  world.known.verified[kRed] = Liveness::kLive;
  EXPECT_FALSE(world.Decide().write) << "a stale cache drained a living domain";
  world.known.verified[kRed] = Liveness::kGone;
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->channels[0].state, LeaseState::kDraining);
  EXPECT_FALSE(decision.look) << "the list must be younger than Draining";
}

TEST(DecideDomainTest, draining_channel_is_freed_after_a_quorum_list) {
  DomainWorld world;
  world.domain.channels = {Lease(5, kRed, LeaseState::kDraining)};
  EXPECT_TRUE(world.Decide().look);
  world.LookNow();
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_TRUE(decision.write->channels.empty());
  EXPECT_EQ(decision.write->meta.resource_version, "10");
}

TEST(DecideDomainTest, list_older_than_the_version_frees_nothing) {
  DomainWorld world;
  world.domain.channels = {Lease(5, kRed, LeaseState::kDraining)};
  world.LookNow();
  world.domain.meta.resource_version = "11";
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.look);
  EXPECT_FALSE(decision.write);
}

TEST(DecideDomainTest, known_holder_is_waited_for_without_asking_the_server) {
  DomainWorld world;
  world.domain.channels = {Lease(5, kRed, LeaseState::kDraining)};
  world.nodes[1] = Holding(world.nodes[1], 5, kRed);
  EXPECT_FALSE(world.Decide().NeedsReads());
  EXPECT_FALSE(world.Decide().write);
}

TEST(DecideDomainTest, holder_found_by_the_list_keeps_the_channel) {
  DomainWorld world;
  world.domain.channels = {Lease(5, kRed, LeaseState::kDraining)};
  world.LookNow();
  world.looked->nodes = All({Assigned("a", 0), Holding(Assigned("b", 1), 5, kRed)});
  const auto decision = world.Decide();
  EXPECT_FALSE(decision.NeedsReads()) << "the watch will tell when the holder is gone";
  EXPECT_FALSE(decision.write);
}

// Another leader may have created a domain, given its slots and channels, and lost it, since any list from before.
TEST(DecideDomainTest, nothing_is_read_for_a_domain_before_its_object_stands) {
  DomainSnapshot snapshot;
  snapshot.clique.name = kClique;
  snapshot.clique.nodes = All({Holding(Assigned("a", 7), 5, kRed, "lost")});
  snapshot.looked = Look{"", snapshot.clique.nodes};
  const auto decision = DecideDomain(snapshot);
  EXPECT_FALSE(decision.NeedsReads());
  ASSERT_TRUE(decision.write);
  EXPECT_TRUE(decision.write->meta.resource_version.empty());
  EXPECT_FALSE(api::IsMade(*decision.write));
  EXPECT_TRUE(decision.write->members.empty());
  EXPECT_TRUE(decision.write->channels.empty());
}

TEST(DecideDomainTest, first_domain_is_made_after_a_list_of_all_reports) {
  DomainWorld world;
  world.has_domain = false;
  world.nodes = {Node("a"), Node("b")};
  EXPECT_TRUE(world.Decide().look);
  EXPECT_FALSE(world.Decide().write);
  world.LookNow();
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->meta.resource_version, "10") << "nobody has made it since";
  EXPECT_TRUE(api::IsMade(*decision.write));
  EXPECT_EQ(decision.write->clique_id, kClique);
  EXPECT_EQ(decision.write->members.size(), 2U);
  EXPECT_EQ(decision.write->meta.finalizers, std::vector<std::string>{api::kFinalizer});
}

TEST(DecideDomainTest, lost_domain_is_rebuilt_before_anything_is_assigned) {
  DomainWorld world;
  world.has_domain = false;
  world.nodes = {Holding(Assigned("a", 7), 5, kRed, "lost"), Node("b")};
  world.LookNow();
  EXPECT_EQ(world.Decide().verify.size(), 1U) << "a rebuilt lease is a grant";
  world.known.verified[kRed] = Liveness::kLive;
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->channels, (std::vector<api::ChannelLease>{Lease(5, kRed)}));
  EXPECT_EQ(api::FindMember(*decision.write, "a")->index, 7);
  EXPECT_NE(api::FindMember(*decision.write, "b"), nullptr);
}

TEST(DecideDomainTest, rebuilt_lease_of_a_deleted_owner_only_drains) {
  DomainWorld world;
  world.has_domain = false;
  world.known.cached.clear();
  world.known.verified[kRed] = Liveness::kGone;
  world.nodes = {Holding(Assigned("a", 7), 5, kRed, "lost")};
  world.LookNow();
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->channels.at(0).state, LeaseState::kDraining);
}

TEST(DecideDomainTest, nodes_whose_fabric_is_forming_make_no_domain) {
  DomainSnapshot snapshot;
  snapshot.clique.name = kClique;
  api::ImexNode forming = Node("a");
  forming.status.fabric = api::FabricState::kForming;
  snapshot.clique.nodes = All({forming});
  EXPECT_FALSE(DecideDomain(snapshot).NeedsReads());
  EXPECT_FALSE(DecideDomain(snapshot).write);
}

TEST(DecideDomainTest, empty_domain_is_removed_after_a_quorum_list) {
  DomainWorld world;
  world.nodes.clear();
  world.domain.members.clear();
  EXPECT_TRUE(world.Decide().look);
  world.LookNow();
  EXPECT_TRUE(world.Decide().remove);
  world.looked->nodes = All({Node("late")});
  EXPECT_FALSE(world.Decide().remove);
}

TEST(DecideDomainTest, refusals_name_the_claims_domain_and_go_with_the_claim) {
  DomainWorld world;
  world.Know(kBlue, "blue", "rivals");
  world.Demand("a", kBlue);
  auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  ASSERT_EQ(decision.write->refusals.size(), 1U);
  EXPECT_EQ(decision.write->refusals[0].node, "a");
  EXPECT_EQ(decision.write->refusals[0].reason, "OtherNamespace");
  world.domain = *decision.write;
  EXPECT_FALSE(world.Decide().write);
  world.demands.clear();
  decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_TRUE(decision.write->refusals.empty());
}

TEST(DecideDomainTest, unknown_owner_is_looked_up_once_not_at_every_reconcile) {
  DomainWorld world;
  world.Demand("a", kBlue);
  EXPECT_EQ(world.Decide().look_up, (std::vector<LookUp>{{"team", kBlue}}));
  world.known.verified[kBlue] = Liveness::kGone;
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->refusals.at(0).reason, "UnknownComputeDomain");
  world.domain = *decision.write;
  world.known.verified.clear();
  EXPECT_FALSE(world.Decide().NeedsReads());
  EXPECT_FALSE(world.Decide().write);
}

TEST(DecideDomainTest, owner_that_the_cache_does_not_know_is_not_taken_for_gone_when_a_domain_is_rebuilt) {
  DomainWorld world;
  world.has_domain = false;
  world.nodes = {Holding(Assigned("a", 0), 9, kBlue, "lost")};
  world.LookNow();
  EXPECT_EQ(world.Decide().look_up, (std::vector<LookUp>{{"", kBlue}}));
  world.Know(kBlue, "blue");  // the answer is put in the cache
  world.known.verified[kBlue] = Liveness::kLive;
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  ASSERT_EQ(decision.write->channels.size(), 1U);
  EXPECT_EQ(decision.write->channels[0].state, api::LeaseState::kActive);
  EXPECT_EQ(decision.write->channels[0].compute_domain.name, "blue");
}

TEST(DecideDomainTest, exhausted_channels_are_refused_in_words) {
  DomainWorld world;
  world.domain.channels.clear();
  for (int channel = 1; channel <= 2047; ++channel)
    world.domain.channels.push_back(Lease(channel, "cd-" + std::to_string(channel)));
  for (const auto& lease : world.domain.channels) world.Know(lease.compute_domain.uid, "x");
  world.Know(kBlue, "blue");
  world.known.verified[kBlue] = Liveness::kLive;
  world.Demand("a", kBlue);
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->refusals.at(0).reason, "NoFreeChannel");
}

TEST(DecideDomainTest, draining_lease_of_an_owner_that_lives_is_active_again) {
  DomainWorld world;
  world.domain.channels = {Lease(5, kRed, LeaseState::kDraining)};
  world.nodes[0] = Holding(world.nodes[0], 5, kRed);
  world.Demand("a", kRed);
  EXPECT_EQ(world.Decide().verify.size(), 1U);
  EXPECT_FALSE(world.Decide().write);
  world.known.verified[kRed] = Liveness::kLive;
  const auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->channels, (std::vector<api::ChannelLease>{Lease(5, kRed)}));
}

TEST(DecideDomainTest, lost_lease_is_granted_anew_with_the_number_that_pods_hold) {
  DomainWorld world;
  world.domain.channels.clear();
  world.domain.next_channel = 9;
  world.nodes[0] = Holding(world.nodes[0], 5, kRed);
  world.Demand("a", kRed);
  world.known.verified[kRed] = Liveness::kLive;
  auto decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->channels, (std::vector<api::ChannelLease>{Lease(5, kRed)}));
  // Of a number that two claim nothing is known.
  world.nodes[1] = Holding(world.nodes[1], 5, kBlue);
  decision = world.Decide();
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(decision.write->channels, (std::vector<api::ChannelLease>{Lease(9, kRed)}));
}

TEST(DecideDomainTest, running_pods_of_a_deleted_domain_are_not_refused) {
  DomainWorld world;
  world.known.cached.clear();
  world.known.deleted = {kRed};
  world.domain.channels = {Lease(5, kRed, LeaseState::kDraining)};
  world.nodes[0] = Holding(world.nodes[0], 5, kRed);
  world.Demand("a", kRed);
  EXPECT_FALSE(world.Decide().NeedsReads());
  EXPECT_FALSE(world.Decide().write);
}

}  // namespace
}  // namespace cd::controller
