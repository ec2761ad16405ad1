// What the daemon is told to run: a table of situations.
#include "src/plugin/daemon_link.h"

#include <gmock/gmock.h>

#include "src/base/loop_for_test.h"
#include "src/fabric/daemon_directory.h"
#include "src/plugin/prepare_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::ElementsAre;

constexpr char kOtherUid[] = "88888888-8888-4888-8888-888888888888";

Checkpoint Holding(const char* domain_uid) {
  Checkpoint checkpoint;
  checkpoint.lingering["a"] = Grant{kDomain, domain_uid, kDomain, 7, {"red-ns", "red", kRedUid}};
  return checkpoint;
}

NodeView MovedTo(const char* domain_uid) {
  NodeView view = ViewOf({});
  auto node = NodeObject();
  node.domain = api::DomainAssignment{"other", domain_uid, 5};
  auto domain = DomainObject({});
  domain.meta.name = "other";
  domain.meta.uid = domain_uid;
  domain.members[0].index = 5;
  view.imex_node = std::make_shared<api::ImexNode>(node);
  view.domain = std::make_shared<api::ImexDomain>(domain);
  return view;
}

fabric::Desired Running() {
  return DecideDesired(ViewOf({}), {}, "boot-1", std::nullopt);
}

TEST(DecideDesired, member_runs_with_the_whole_node_map) {
  const auto desired = Running();
  EXPECT_TRUE(desired.run);
  EXPECT_TRUE(desired.idle);
  EXPECT_EQ(desired.boot_id, "boot-1");
  EXPECT_EQ(desired.domain, (fabric::DesiredDomain{kDomain, kDomainUid, 3, 24}));
  EXPECT_THAT(desired.hosts, ElementsAre(fabric::DesiredHost{3, "10.0.0.1"}, fabric::DesiredHost{4, "10.0.0.2"}));
  EXPECT_EQ(desired.config.wait_for_quorum, "NONE");
}

TEST(DecideDesired, members_without_a_proper_address_are_left_out) {
  NodeView view = ViewOf({});
  auto domain = DomainObject({});
  domain.members[0].address = "";
  domain.members[1].address = "evil\n10.0.0.9";
  view.domain = std::make_shared<api::ImexDomain>(domain);
  EXPECT_TRUE(DecideDesired(view, {}, "boot-1", std::nullopt).hosts.empty());
}

NodeView Unassigned(const std::vector<api::ChannelLease>& leases) {
  NodeView view = ViewOf(leases);
  auto node = NodeObject();
  node.domain.reset();
  view.imex_node = std::make_shared<api::ImexNode>(node);
  return view;
}

api::ChannelLease LeaseOf(int channel, const char* uid) {
  return {channel, {"red-ns", "red", uid}, api::LeaseState::kActive, true};
}

TEST(DecideDesired, node_without_a_domain_stops_with_a_channel_held_that_is_not_granted) {
  EXPECT_FALSE(DecideDesired(Unassigned({}), Holding(kDomainUid), "boot-1", Running()).run);
  EXPECT_FALSE(DecideDesired(Unassigned({LeaseOf(7, kOtherUid)}), Holding(kDomainUid), "boot-1", Running()).run);
  EXPECT_FALSE(DecideDesired(Unassigned({LeaseOf(8, kRedUid)}), Holding(kDomainUid), "boot-1", Running()).run);
}

TEST(DecideDesired, node_without_a_domain_and_without_a_channel_stops) {
  EXPECT_FALSE(DecideDesired(Unassigned({LeaseOf(7, kRedUid)}), {}, "boot-1", Running()).run);
}

TEST(DecideDesired, lost_assignment_of_a_member_whose_channels_are_granted_stops_nothing) {
  const auto running = Running();
  NodeView view = Unassigned({LeaseOf(7, kRedUid)});
  EXPECT_EQ(DecideDesired(view, Holding(kDomainUid), "boot-1", running), running);
  view.imex_node = nullptr;
  EXPECT_EQ(DecideDesired(view, Holding(kDomainUid), "boot-1", running), running);
}

TEST(DecideDesired, lost_assignment_stops_nothing_for_a_channel_that_was_only_announced) {
  const auto running = Running();
  Checkpoint checkpoint = Holding(kDomainUid);
  ClaimEntry announced;
  announced.claim = ClaimRef(1);
  announced.nonce = "n";
  announced.grant = Grant{kDomain, kDomainUid, kDomain, 9, {"red-ns", "blue", kOtherUid}};
  ASSERT_TRUE(Begin(checkpoint, announced, checkpoint.sequence));
  EXPECT_EQ(DecideDesired(Unassigned({LeaseOf(7, kRedUid)}), checkpoint, "boot-1", running), running);
  checkpoint.lingering.clear();
  EXPECT_FALSE(DecideDesired(Unassigned({LeaseOf(7, kRedUid)}), checkpoint, "boot-1", running).run);
  EXPECT_EQ(DecideDesired(Unassigned({LeaseOf(9, kOtherUid)}), checkpoint, "boot-1", running), running)
      << "its process is about to start";
}

TEST(DecideDesired, lost_assignment_stops_nothing_before_the_domain_was_read) {
  const auto running = Running();
  NodeView view = Unassigned({});
  view.domain = nullptr;
  view.imex_node = nullptr;
  EXPECT_EQ(DecideDesired(view, Holding(kDomainUid), "boot-1", running), running);
  api::ImexDomain unmade = DomainObject({});
  unmade.members.clear();
  unmade.meta.annotations[api::kUnmadeAnnotation] = "";
  view.domain = std::make_shared<api::ImexDomain>(unmade);
  EXPECT_EQ(DecideDesired(view, Holding(kDomainUid), "boot-1", running), running) << "it is lost, and being made anew";
  EXPECT_FALSE(DecideDesired(view, {}, "boot-1", running).run) << "nothing is held";
}

TEST(DecideDesired, lost_assignment_of_a_node_that_is_no_member_any_more_stops_it) {
  NodeView view = Unassigned({LeaseOf(7, kRedUid)});
  auto domain = *view.domain;
  std::erase_if(domain.members, [&](const api::DomainMember& member) { return member.node == view.node; });
  view.domain = std::make_shared<api::ImexDomain>(domain);
  EXPECT_FALSE(DecideDesired(view, Holding(kDomainUid), "boot-1", Running()).run);
  domain.members.push_back({9, view.node, "10.0.0.1", "boot-1"});
  view.domain = std::make_shared<api::ImexDomain>(domain);
  EXPECT_FALSE(DecideDesired(view, Holding(kDomainUid), "boot-1", Running()).run) << "its place is another one";
}

TEST(DecideDesired, held_channel_keeps_the_node_in_its_domain) {
  const auto running = Running();
  EXPECT_EQ(DecideDesired(MovedTo(kOtherUid), Holding(kDomainUid), "boot-1", running), running);
}

TEST(DecideDesired, idle_node_moves_to_its_new_domain) {
  const auto desired = DecideDesired(MovedTo(kOtherUid), {}, "boot-1", Running());
  EXPECT_EQ(desired.domain->uid, kOtherUid);
  EXPECT_EQ(desired.domain->index, 5);
}

TEST(DecideDesired, held_channel_of_the_domain_forbids_restarts_for_a_new_config) {
  EXPECT_FALSE(DecideDesired(ViewOf({}), Holding(kDomainUid), "boot-1", std::nullopt).idle);
}

TEST(DecideDesired, domain_that_is_not_read_yet_stops_nobody_who_serves_it) {
  NodeView view = ViewOf({});
  view.domain = nullptr;
  EXPECT_EQ(DecideDesired(view, {}, "boot-1", Running()), Running());
  EXPECT_FALSE(DecideDesired(view, {}, "boot-1", std::nullopt).run);
}

TEST(DecideDesired, place_that_the_domain_does_not_know_of_is_not_entered) {
  NodeView view = ViewOf({});
  auto domain = *view.domain;
  domain.members[0].index = 9;
  view.domain = std::make_shared<api::ImexDomain>(domain);
  EXPECT_FALSE(DecideDesired(view, {}, "boot-1", std::nullopt).run);
  domain.members.clear();
  view.domain = std::make_shared<api::ImexDomain>(domain);
  EXPECT_FALSE(DecideDesired(view, {}, "boot-1", std::nullopt).run);
}

TEST(DecideDesired, rebuilt_domain_is_the_same_one_under_another_uid) {
  NodeView view = ViewOf({});
  auto node = NodeObject();
  auto domain = DomainObject({});
  node.domain->uid = domain.meta.uid = kOtherUid;
  view.imex_node = std::make_shared<api::ImexNode>(node);
  view.domain = std::make_shared<api::ImexDomain>(domain);
  const auto desired = DecideDesired(view, Holding(kDomainUid), "boot-1", Running());
  EXPECT_EQ(desired.domain, (fabric::DesiredDomain{kDomain, kOtherUid, 3, 24}));
  EXPECT_FALSE(desired.idle);
}

TEST(DecideDesired, stopped_daemon_joins_no_other_domain_with_a_channel_held) {
  fabric::Desired stopped;
  stopped.boot_id = "boot-1";
  stopped.idle = true;
  EXPECT_FALSE(DecideDesired(MovedTo(kOtherUid), Holding(kDomainUid), "boot-1", stopped).run);
}

class DaemonLinkTest : public ::testing::Test {
 protected:
  DaemonLinkTest() { std::filesystem::create_directories(dir_ / "status"); }

  TempDir temp_;
  const std::filesystem::path dir_ = temp_.path() / "daemon";
  LoopForTest loop_;
  std::vector<api::NodeDaemon> told_;
  DaemonLink link_{loop_.loop(), dir_, "boot-1", [this](const api::NodeDaemon& daemon) { told_.push_back(daemon); }};
};

TEST_F(DaemonLinkTest, daemon_is_told_once_the_disk_takes_it) {
  link_.BecomePublisher();
  link_.Reconcile(ViewOf({}), {});  // there is no directory to write to
  EXPECT_FALSE(fabric::ReadDesired(dir_));
  std::filesystem::create_directories(dir_ / "desired");
  ASSERT_TRUE(loop_.RunUntil([this] { return fabric::ReadDesired(dir_).has_value(); }));
  EXPECT_EQ(fabric::ReadDesired(dir_), Running());
}

TEST_F(DaemonLinkTest, what_became_of_it_meanwhile_is_what_the_daemon_is_told) {
  link_.BecomePublisher();
  link_.Reconcile(ViewOf({}), {});
  link_.Reconcile(MovedTo(kOtherUid), {});
  std::filesystem::create_directories(dir_ / "desired");
  ASSERT_TRUE(loop_.RunUntil([this] { return fabric::ReadDesired(dir_).has_value(); }));
  EXPECT_EQ(fabric::ReadDesired(dir_)->domain->uid, kOtherUid);
}

TEST_F(DaemonLinkTest, place_it_is_told_to_run_in_is_reported_until_it_is_told_to_stop) {
  std::filesystem::create_directories(dir_ / "desired");
  link_.BecomePublisher();
  link_.Reconcile(ViewOf({}), {});
  ASSERT_FALSE(told_.empty());
  EXPECT_EQ(told_.back().state, api::DaemonState::kAbsent);
  EXPECT_EQ(told_.back().domain_uid, kDomainUid);
  EXPECT_EQ(told_.back().domain, kDomain);
  EXPECT_EQ(told_.back().index, 3);
  link_.Reconcile(Unassigned({}), {});
  EXPECT_EQ(told_.back().domain_uid, "") << "only now nothing can start there any more";
}

TEST_F(DaemonLinkTest, what_the_boot_before_was_told_is_taken_back_before_anything_is_known) {
  std::filesystem::create_directories(dir_ / "desired");
  fabric::Desired before = Running();
  before.boot_id = "boot-0";
  ASSERT_TRUE(fabric::WriteDesired(dir_, before));
  link_.BecomePublisher();
  const auto stands = fabric::ReadDesired(dir_);
  ASSERT_TRUE(stands);
  EXPECT_FALSE(stands->run) << "the place may be another node's by now";
  EXPECT_EQ(stands->boot_id, "boot-1");
  EXPECT_EQ(link_.domain_name(), "");
}

TEST_F(DaemonLinkTest, what_the_instance_before_told_stands) {
  std::filesystem::create_directories(dir_ / "desired");
  ASSERT_TRUE(fabric::WriteDesired(dir_, Running()));
  link_.BecomePublisher();
  EXPECT_EQ(fabric::ReadDesired(dir_), Running());
  EXPECT_EQ(link_.domain_name(), kDomain);
}

}  // namespace
}  // namespace cd::plugin
