#include "src/domain/leases.h"

#include <gtest/gtest.h>

#include "src/domain/isolation.h"
#include "src/domain/testing.h"

namespace cd::domain {
namespace {

using namespace testing;  // NOLINT
using api::ImexNode;
using api::LeaseState;

TEST(NextFreeChannelTest, begins_at_one_never_at_zero) {
  auto domain = Domain();
  domain.next_channel = 0;
  EXPECT_EQ(NextFreeChannel(domain, {}), 1);
}

TEST(NextFreeChannelTest, skips_leases_of_any_state_and_listed_numbers) {
  auto domain = Domain();
  domain.channels = {Lease(1, kRed), Lease(2, kBlue, LeaseState::kDraining)};
  EXPECT_EQ(NextFreeChannel(domain, {3}), 4);
}

TEST(NextFreeChannelTest, freed_number_is_not_the_next_one) {
  auto domain = Domain();
  Grant(domain, {"team", "red", kRed}, 1);
  Drain(domain, kRed);
  FreeChannels(domain, {1});
  EXPECT_EQ(NextFreeChannel(domain, {}), 2);
}

TEST(NextFreeChannelTest, goes_around_the_end) {
  auto domain = Domain();
  Grant(domain, {"team", "red", kRed}, kLastChannel);
  EXPECT_EQ(domain.next_channel, 1);
  domain.next_channel = kLastChannel;
  EXPECT_EQ(NextFreeChannel(domain, {}), 1);
}

TEST(NextFreeChannelTest, exhaustion_is_nothing) {
  auto domain = Domain();
  std::set<int> listed;
  for (int channel = kFirstChannel; channel <= kLastChannel; ++channel) listed.insert(channel);
  EXPECT_EQ(NextFreeChannel(domain, listed), std::nullopt);
}

struct FreeCase {
  const char* name;
  LeaseState state;
  std::vector<ImexNode> nodes;
  bool free;
};

class FreeTest : public ::testing::TestWithParam<FreeCase> {};

TEST_P(FreeTest, number_is_free_only_when_no_node_may_hold_it) {
  auto domain = Domain();
  domain.members = {Member(0, "a"), Member(1, "b")};
  domain.channels = {Lease(5, kRed, GetParam().state)};
  const Nodes looked = All(GetParam().nodes);
  Clique clique = CliqueOf(domain, {});
  clique.other_domains = {"elsewhere"};
  EXPECT_EQ(FreeableChannels(clique, looked), GetParam().free ? std::vector<int>{5} : std::vector<int>{});
}

ImexNode Unreported(const std::string& name) {
  ImexNode node;
  node.meta.name = name;
  return node;
}

ImexNode Stranger(const std::string& name) {
  ImexNode node = Node(name);
  node.status.clique_ids = {"other.2"};
  return node;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, FreeTest,
    ::testing::Values(
        FreeCase{"nobody_lists_it", LeaseState::kDraining, {Assigned("a", 0), Assigned("b", 1)}, true},
        FreeCase{"lease_is_active", LeaseState::kActive, {Assigned("a", 0), Assigned("b", 1)}, false},
        FreeCase{"owner_lists_it", LeaseState::kDraining, {Assigned("a", 0), Holding(Assigned("b", 1), 5, kRed)}, false},
        FreeCase{"somebody_else_lists_it", LeaseState::kDraining, {Assigned("a", 0), Holding(Assigned("b", 1), 5, kBlue)}, false},
        FreeCase{"another_number_is_listed", LeaseState::kDraining, {Assigned("a", 0), Holding(Assigned("b", 1), 6, kRed)}, true},
        FreeCase{"listed_under_a_lost_domain",
                 LeaseState::kDraining,
                 {Assigned("a", 0), Holding(Assigned("b", 1), 5, kRed, "lost")},
                 false},
        FreeCase{"stranger_lists_it_in_this_domain",
                 LeaseState::kDraining,
                 {Assigned("a", 0), Assigned("b", 1), Holding(Stranger("z"), 5, kRed)},
                 false},
        FreeCase{"stranger_lists_the_number_elsewhere",
                 LeaseState::kDraining,
                 {Assigned("a", 0), Assigned("b", 1), Holding(Stranger("z"), 5, kRed, "elsewhere")},
                 true},
        FreeCase{"report_of_a_member_is_missing", LeaseState::kDraining, {Assigned("a", 0)}, false},
        FreeCase{"member_came_back_without_report", LeaseState::kDraining, {Assigned("a", 0), Unreported("b")}, false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(DrainTest, drains_the_owner_only_and_once) {
  auto domain = Domain();
  domain.channels = {Lease(5, kRed), Lease(6, kBlue)};
  EXPECT_TRUE(Drain(domain, kRed));
  EXPECT_FALSE(Drain(domain, kRed));
  EXPECT_EQ(domain.channels[0].state, LeaseState::kDraining);
  EXPECT_EQ(domain.channels[1].state, LeaseState::kActive);
}

api::ImexDomain Empty() {
  return Unmade(NewDomain(kClique, {}, {}));
}

TEST(RebuildTest, members_keep_their_indexes_and_owners_their_channels) {
  Clique clique;
  clique.name = kClique;
  const Nodes looked = All({Holding(Assigned("a", 7), 5, kRed, "lost"), Holding(Assigned("b", 2), 5, kRed, "lost"), Node("c")});
  const auto domain = Rebuild(Empty(), clique, looked, {{"team", "red", kRed}});
  EXPECT_EQ(domain.members, (std::vector<api::DomainMember>{Member(2, "b"), Member(7, "a")}));
  EXPECT_EQ(domain.channels, (std::vector<api::ChannelLease>{Lease(5, kRed)}));
  EXPECT_EQ(domain.next_channel, 6);
}

TEST(RebuildTest, a_running_daemon_keeps_its_index_whatever_is_assigned) {
  Clique clique;
  clique.name = kClique;
  api::ImexNode unassigned = Assigned("b", 2);
  unassigned.domain.reset();
  api::ImexNode stopped = Assigned("a", 2);
  stopped.status.daemon = {};
  const auto domain = Rebuild(Empty(), clique, All({stopped, unassigned}), {});
  EXPECT_EQ(domain.members, (std::vector<api::DomainMember>{Member(2, "b")}));
}

// Its GPUs have moved here, and the domain it came from was lost as well: the UID tells nobody which one that was.
TEST(RebuildTest, a_daemon_that_runs_in_another_lost_domain_has_no_place_here) {
  Clique clique;
  clique.name = kClique;
  api::ImexNode moved = Assigned("a", 2);
  moved.domain = api::DomainAssignment{"another.clique", "lost-too", 2};
  moved.status.daemon.domain_uid = "lost-too";
  moved.status.daemon.domain = "another.clique";
  const auto domain = Rebuild(Empty(), clique, All({moved, Assigned("b", 2)}), {});
  EXPECT_EQ(domain.members, (std::vector<api::DomainMember>{Member(2, "b")}));
}

TEST(RebuildTest, a_place_where_a_daemon_may_be_started_is_kept) {
  Clique clique;
  clique.name = kClique;
  api::ImexNode told = Assigned("a", 2);
  told.domain.reset();
  told.status.clique_ids = {"another.clique"};
  told.status.daemon.state = api::DaemonState::kAbsent;
  told.status.daemon.domain = kClique;
  const auto domain = Rebuild(Empty(), clique, All({told}), {});
  EXPECT_EQ(domain.members, (std::vector<api::DomainMember>{Member(2, "a")}));
}

TEST(RebuildTest, unknown_owner_keeps_the_number_reserved) {
  Clique clique;
  clique.name = kClique;
  const auto domain = Rebuild(Empty(), clique, All({Holding(Assigned("a", 0), 9, kBlue)}), {});
  ASSERT_EQ(domain.channels.size(), 1U);
  EXPECT_EQ(domain.channels[0].compute_domain, (api::ObjectRef{"", "", kBlue}));
}

TEST(RebuildTest, channel_of_a_node_whose_gpus_have_moved_since_is_found_by_the_domains_name) {
  Clique clique;
  clique.name = kClique;
  api::ImexNode moved = Node("a");
  moved.status.clique_ids = {"another.clique"};
  moved.status.channels = {{"lost-uid", 9, kRed, kClique}};
  const auto domain = Rebuild(Empty(), clique, All({moved}), {{"team", "red", kRed}});
  ASSERT_EQ(domain.channels.size(), 1U);
  EXPECT_EQ(domain.channels[0].channel, 9);
  Clique other;
  other.name = "another.clique";
  EXPECT_TRUE(HoldsUngranted(other, moved)) << "it enters no other domain before it has let go";
}

TEST(RebuildTest, second_channel_of_one_owner_may_only_drain) {
  Clique clique;
  clique.name = kClique;
  const auto domain = Rebuild(Empty(), clique, All({Holding(Assigned("a", 0), 5, kRed), Holding(Assigned("b", 1), 6, kRed)}), {});
  ASSERT_EQ(domain.channels.size(), 2U);
  EXPECT_EQ(domain.channels[1].channel, 6);
  EXPECT_EQ(domain.channels[1].state, LeaseState::kDraining);
}

TEST(RebuildTest, nodes_of_other_cliques_do_not_count) {
  Clique clique;
  clique.name = kClique;
  clique.other_domains = {"elsewhere"};
  const auto domain = Rebuild(Empty(), clique, All({Holding(Stranger("z"), 5, kRed, "elsewhere"), Node("a")}), {});
  EXPECT_TRUE(domain.members.empty());
  EXPECT_TRUE(domain.channels.empty());
}

// A red with isolationMode Domain, its IMEXDomain lost while node a runs its pod and node b serves the shared domain, lost as
// well.
struct LostDomains {
  std::string exclusive = api::DomainName({kClique, kRed});
  Nodes looked;

  LostDomains() {
    api::ImexNode a = Holding(Assigned("a", 3), 1, kRed, "lost-exclusive");
    a.domain = api::DomainAssignment{exclusive, "lost-exclusive", 3};
    a.status.daemon.domain_uid = "lost-exclusive";
    api::ImexNode b = Holding(Assigned("b", 4), 1, kBlue, "lost-shared");
    b.status.daemon.domain_uid = "lost-shared";
    looked = All({a, b});
  }
  api::ImexDomain Rebuilt(const std::string& name) const {
    Clique clique;
    clique.name = name;
    return Rebuild(Unmade(NewDomain(name, {{kRed, ViewOf(Red())}}, {})), clique, looked,
                   {{"team", "red", kRed}, {"team", "blue", kBlue}});
  }
};

TEST(RebuildTest, a_lost_exclusive_domain_takes_its_own_nodes_and_channels_only) {
  const LostDomains lost;
  const auto domain = lost.Rebuilt(lost.exclusive);
  EXPECT_EQ(domain.mode, api::DomainMode::kExclusive);
  EXPECT_EQ(domain.clique_id, kClique);
  EXPECT_EQ(domain.compute_domain, (api::ObjectRef{"team", "red", kRed}));
  EXPECT_EQ(domain.members, (std::vector<api::DomainMember>{Member(3, "a")}));
  EXPECT_EQ(domain.channels, (std::vector<api::ChannelLease>{Lease(1, kRed)}));
}

TEST(RebuildTest, a_lost_shared_domain_takes_nothing_of_an_exclusive_one) {
  const auto domain = LostDomains().Rebuilt(kClique);
  EXPECT_EQ(domain.mode, api::DomainMode::kShared);
  EXPECT_EQ(domain.members, (std::vector<api::DomainMember>{Member(4, "b")}));
  EXPECT_EQ(domain.channels, (std::vector<api::ChannelLease>{Lease(1, kBlue)}));
}

}  // namespace
}  // namespace cd::domain
