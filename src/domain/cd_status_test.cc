#include "src/domain/cd_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "src/domain/testing.h"

namespace cd::domain {
namespace {

using namespace testing;  // NOLINT
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kNow[] = "2026-11-30T18:00:00Z";

// Two nodes of red in one clique, both served; tests spoil it.
struct World {
  api::ComputeDomain cd = Red();
  api::ImexDomain domain = Domain();
  api::ImexNode a = Assigned("a", 0);
  api::ImexNode b = Assigned("b", 1);
  std::vector<std::string> nodes = {"a", "b"};
  std::optional<std::string> not_accepted;
  std::optional<std::string> conflict;

  World() {
    domain.members = {Member(0, "a"), Member(1, "b")};
    domain.channels = {Lease(5, kRed)};
    a.status.daemon.connected = {1};
    b.status.daemon.connected = {0};
  }

  api::ComputeDomainStatus Status() const {
    return Summarize(
        {cd, not_accepted, conflict, nodes, All({a, b}), {{kClique, std::make_shared<const api::ImexDomain>(domain)}}, kNow});
  }
};

api::Condition Find(const api::ComputeDomainStatus& status, const std::string& type) {
  for (const auto& condition : status.conditions) {
    if (condition.type == type) return condition;
  }
  return {};
}

TEST(StatusTest, all_nodes_ready_and_connected) {
  const auto status = World().Status();
  EXPECT_EQ(status.total_nodes, 2);
  EXPECT_EQ(status.ready_nodes, 2);
  EXPECT_EQ(status.partitions, (std::vector<api::PartitionStatus>{{kClique, kClique, 5, 2, 2}}));
  EXPECT_EQ(status.members, (std::vector<api::MemberStatus>{{"a", kClique, "ip-a", 0, true}, {"b", kClique, "ip-b", 1, true}}));
  EXPECT_EQ(Find(status, "Accepted").status, "True");
  EXPECT_EQ(Find(status, "Ready").status, "True");
  EXPECT_EQ(Find(status, "Formed").status, "True");
  EXPECT_EQ(Find(status, "Degraded").status, "False");
}

TEST(StatusTest, nodes_without_fabric_are_ready_and_named) {
  World world;
  world.b = WithoutFabric("b");
  world.b.exemptions = {{{"team", "red", kRed}}};
  world.domain.members = {Member(0, "a")};
  const auto status = world.Status();
  EXPECT_EQ(status.total_nodes, 2);
  EXPECT_EQ(status.ready_nodes, 2);
  EXPECT_EQ(status.nodes_without_fabric, 1);
  EXPECT_EQ(status.partitions, (std::vector<api::PartitionStatus>{{kClique, kClique, 5, 1, 1}}));
  const auto ready = Find(status, "Ready");
  EXPECT_EQ(ready.status, "True");
  EXPECT_EQ(ready.reason, "SomeNodesWithoutFabric");
  EXPECT_THAT(ready.message, AllOf(HasSubstr("without a channel"), HasSubstr("b")));
  EXPECT_EQ(Find(status, "Formed").status, "True") << "a node without channel has nothing to be connected with";
}

TEST(StatusTest, node_without_fabric_that_is_not_exempt_is_not_ready) {
  World world;
  world.b = WithoutFabric("b");
  world.domain.members = {Member(0, "a")};
  EXPECT_EQ(Find(world.Status(), "Ready").status, "False");
}

TEST(StatusTest, every_condition_has_reason_generation_and_time) {
  for (const auto& condition : World().Status().conditions) {
    EXPECT_FALSE(condition.reason.empty()) << condition.type;
    EXPECT_EQ(condition.observed_generation, 1) << condition.type;
    EXPECT_EQ(condition.last_transition_time, kNow) << condition.type;
  }
}

TEST(StatusTest, time_of_an_unchanged_condition_is_kept) {
  World world;
  world.cd.status.conditions = {{"Ready", "True", "Old", "old", 1, "2026-01-01T00:00:00Z"},
                                {"Formed", "False", "Old", "old", 1, "2026-01-01T00:00:00Z"}};
  EXPECT_EQ(Find(world.Status(), "Ready").last_transition_time, "2026-01-01T00:00:00Z");
  EXPECT_EQ(Find(world.Status(), "Formed").last_transition_time, kNow);
}

TEST(StatusTest, without_pods_it_says_so) {
  World world;
  world.nodes.clear();
  const auto status = world.Status();
  EXPECT_EQ(Find(status, "Ready").reason, "NoNodes");
  EXPECT_EQ(status.partitions, (std::vector<api::PartitionStatus>{{kClique, kClique, 5, 0, 0}}));
}

TEST(StatusTest, spare_slots_and_other_members_do_not_count) {
  World world;
  world.nodes = {"a"};
  world.b.status.daemon.state = api::DaemonState::kNotReady;
  EXPECT_EQ(Find(world.Status(), "Ready").status, "True");
  EXPECT_EQ(Find(world.Status(), "Formed").status, "True");
}

TEST(StatusTest, partition_is_chosen_by_where_nodes_are_though_no_exclusive_domain_is_there_yet) {
  World world;
  world.cd.isolation_mode = api::IsolationMode::kDomain;
  world.cd.partition_policy = api::PartitionPolicy::kSingle;
  world.domain.channels.clear();
  EXPECT_EQ(world.Status().partition, kClique);
}

// A clique is an IMEX domain of its own: numbers and indexes of one say nothing about the other.
TEST(StatusTest, each_clique_is_a_partition_with_its_own_channel_and_indexes) {
  World world;
  world.domain.members = {Member(0, "a")};
  world.a.status.daemon.connected.clear();
  constexpr char kOther[] = "3f0e6c1a-0000-4000-8000-000000000001.2";
  api::ImexDomain other = Domain();
  other.meta.name = other.clique_id = kOther;
  other.meta.uid = "other-uid";
  other.members = {Member(0, "b")};
  other.channels = {Lease(9, kRed)};
  world.b = Assigned("b", 0);
  world.b.domain = api::DomainAssignment{kOther, "other-uid", 0};
  world.b.status.clique_ids = {kOther};
  world.b.status.daemon.domain_uid = "other-uid";
  const auto status = Summarize({world.cd,
                                 std::nullopt,
                                 std::nullopt,
                                 world.nodes,
                                 All({world.a, world.b}),
                                 {{kClique, std::make_shared<const api::ImexDomain>(world.domain)},
                                  {kOther, std::make_shared<const api::ImexDomain>(other)}},
                                 kNow});
  EXPECT_EQ(status.ready_nodes, 2);
  EXPECT_EQ(status.partitions, (std::vector<api::PartitionStatus>{{kClique, kClique, 5, 1, 1}, {kOther, kOther, 9, 1, 1}}));
  EXPECT_EQ(Find(status, "Ready").status, "True");
}

TEST(StatusTest, not_accepted_shows_everywhere) {
  World world;
  world.not_accepted = "spec.gating: no";
  EXPECT_EQ(Find(world.Status(), "Accepted").reason, "NotServed");
  EXPECT_EQ(Find(world.Status(), "Ready").reason, "NotAccepted");
}

TEST(StatusTest, foreign_template_is_named) {
  World world;
  world.conflict = "belongs to Job x";
  EXPECT_EQ(Find(world.Status(), "Accepted").reason, "TemplateNameTaken");
  EXPECT_EQ(Find(world.Status(), "Accepted").message, "belongs to Job x");
}

struct NotReadyCase {
  const char* name;
  std::function<void(World&)> spoil;
  const char* why;
};

class NotReadyTest : public ::testing::TestWithParam<NotReadyCase> {};

TEST_P(NotReadyTest, says_which_node_and_why) {
  World world;
  GetParam().spoil(world);
  const auto status = world.Status();
  EXPECT_EQ(status.ready_nodes, 1);
  const auto ready = Find(status, "Ready");
  EXPECT_EQ(ready.status, "False");
  EXPECT_THAT(ready.message, AllOf(HasSubstr("node b"), HasSubstr(GetParam().why)));
  EXPECT_EQ(Find(status, "Formed").status, "False");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, NotReadyTest,
    ::testing::Values(
        NotReadyCase{"unreported", [](World& w) { w.b.reported = false; }, "has not reported"},
        NotReadyCase{"no_slot", [](World& w) { w.domain.members.pop_back(); }, "no slot"},
        NotReadyCase{"daemon_not_ready", [](World& w) { w.b.status.daemon.state = api::DaemonState::kNotReady; },
                     "daemon is not ready"},
        NotReadyCase{"daemon_says_why",
                     [](World& w) {
                       w.b.status.daemon.state = api::DaemonState::kNotReady;
                       w.b.status.daemon.message = "nvidia-imex exited: stop the host's";
                     },
                     "daemon is not ready: nvidia-imex exited: stop the host's"},
        NotReadyCase{"daemon_of_another_domain", [](World& w) { w.b.status.daemon.domain_uid = "other"; }, "daemon is not ready"},
        NotReadyCase{"daemon_at_another_index", [](World& w) { w.b.status.daemon.index = 7; }, "daemon is not ready"},
        NotReadyCase{"refused_in_the_domain", [](World& w) { w.domain.refusals = {{"b", kRed, "NoFreeChannel", "all leased"}}; },
                     "all leased"},
        NotReadyCase{"refused_in_the_node", [](World& w) { w.b.refusals = {{"", kRed, "NoFabric", "no NVLink"}}; }, "no NVLink"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(StatusTest, without_lease_nobody_is_ready) {
  World world;
  world.domain.channels = {Lease(5, kRed, api::LeaseState::kDraining)};
  const auto status = world.Status();
  EXPECT_EQ(status.ready_nodes, 0);
  EXPECT_TRUE(status.partitions.empty());
}

TEST(StatusTest, ready_but_not_connected_is_not_formed) {
  World world;
  world.b.status.daemon.connected.clear();
  EXPECT_EQ(Find(world.Status(), "Ready").status, "True");
  EXPECT_EQ(Find(world.Status(), "Formed").reason, "NodesNotConnected");
}

// Its own word is not what counts: a daemon with another identity than it says is seen by nobody.
TEST(StatusTest, ready_node_that_its_peers_do_not_see_is_named) {
  World world;
  world.a.status.daemon.connected.clear();
  EXPECT_THAT(Find(world.Status(), "Formed").message, HasSubstr("node b is not seen by a"));
}

TEST(StatusTest, versions_that_differ_are_named_where_nodes_are_not_connected) {
  World world;
  world.a.status.daemon.connected.clear();
  world.a.status.driver_version = "580.95.05";
  world.b.status.driver_version = "580.105.08";
  EXPECT_THAT(Find(world.Status(), "Formed").message, HasSubstr("580.105.08 on b; 580.95.05 on a"));
}

TEST(StatusTest, node_that_the_others_contradict_is_not_ready_and_degraded_under_running_pods) {
  World world;
  world.domain.members.back().unseen = true;
  EXPECT_THAT(Find(world.Status(), "Ready").message, HasSubstr("node b: its IMEX daemon says READY, but"));
  EXPECT_EQ(Find(world.Status(), "Degraded").status, "False") << "no pod runs there";
  world.b = Holding(world.b, 5, kRed);
  EXPECT_EQ(Find(world.Status(), "Degraded").reason, "NodeNotSeen");
}

TEST(StatusTest, failing_daemon_under_running_pods_is_degraded) {
  World world;
  world.b = Holding(world.b, 5, kRed);
  world.b.status.daemon.state = api::DaemonState::kNotReady;
  world.b.status.daemon.message = "nvidia-imex was killed";
  EXPECT_EQ(Find(world.Status(), "Degraded").reason, "DaemonNotReady");
  EXPECT_THAT(Find(world.Status(), "Degraded").message,
              HasSubstr("node b: pods run, but its IMEX daemon is not ready: nvidia-imex was killed"));
}

TEST(StatusTest, counts_stay_exact_beyond_the_listed_members) {
  World world;
  for (int i = 0; i < 200; ++i) world.nodes.push_back("n" + std::to_string(i));
  const auto status = world.Status();
  EXPECT_EQ(status.total_nodes, 202);
  EXPECT_EQ(status.members.size(), static_cast<std::size_t>(api::kMaxStatusMembers));
  EXPECT_THAT(Find(status, "Ready").message, HasSubstr("and 197 more"));
}

TEST(UrgencyTest, acceptance_at_once_growth_soon_shrinking_later) {
  World world;
  const auto full = world.Status();
  EXPECT_EQ(UrgencyOf({}, full), Urgency::kAtOnce);
  EXPECT_EQ(UrgencyOf(full, full), Urgency::kNothing);
  world.nodes = {"a"};
  const auto one = world.Status();
  EXPECT_EQ(UrgencyOf(one, full), Urgency::kSoon);
  EXPECT_EQ(UrgencyOf(full, one), Urgency::kLater);
  world.not_accepted = "no";
  EXPECT_EQ(UrgencyOf(one, world.Status()), Urgency::kAtOnce);
}

TEST(ServesNowTest, node_whose_gpus_have_moved_starts_nobody_here) {
  auto domain = Domain();
  domain.members = {Member(0, "a")};
  api::ImexNode node = Assigned("a", 0);
  EXPECT_TRUE(ServesNow(domain, node));
  node.status.clique_ids = {"other.2"};
  EXPECT_FALSE(ServesNow(domain, node));
  node.status.clique_ids.clear();
  node.status.fabric = api::FabricState::kForming;
  EXPECT_TRUE(ServesNow(domain, node)) << "it may heal";
}

}  // namespace
}  // namespace cd::domain
