// What the IMEXNode says and when it is written: the report itself.
#include <gmock/gmock.h>

#include "src/plugin/node_reporter_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(NodeReporterTest, nothing_is_written_before_the_fabric_was_read_and_by_nobody_but_the_publisher) {
  NodeState state(executor, dir.path() / "plugin", "boot-1", files);
  NodeReporter reporter(executor, api, state, kNode, "boot-1");
  reporter.SetObserved(nullptr);
  reporter.BecomePublisher(OwnedBy(kOwner));
  executor.RunPosted();
  EXPECT_EQ(Writes(), 0);
  auto second = Start();
  EXPECT_EQ(Writes(), 0);
}

TEST_F(NodeReporterTest, further_claims_of_a_compute_domain_cost_no_write) {
  auto instance = StartPublisher();
  Hold(*instance, 1);
  const int writes = Writes();
  Hold(*instance, 2);
  Hold(*instance, 3);
  Release(*instance, 1);
  EXPECT_EQ(Writes(), writes);
  Release(*instance, 2);
  Release(*instance, 3);
  EXPECT_EQ(Writes(), writes + 1);
  EXPECT_THAT(Stored().status.channels, IsEmpty());
}

TEST_F(NodeReporterTest, changes_while_a_write_is_under_way_become_one_more_write) {
  auto instance = StartPublisher();
  const int writes = Writes();
  instance->reporter.SetDaemon({"10.0.0.1", "i1", kDomainUid, 3, api::DaemonState::kStarting, {}});
  instance->reporter.SetDaemon({"10.0.0.1", "i1", kDomainUid, 3, api::DaemonState::kReady, {}});
  instance->reporter.SetDaemon({"10.0.0.1", "i1", kDomainUid, 3, api::DaemonState::kReady, {4}});
  executor.RunPosted();
  EXPECT_EQ(Writes(), writes + 2);
  EXPECT_THAT(Stored().status.daemon.connected, ElementsAre(4));
}

TEST_F(NodeReporterTest, what_a_failing_daemon_said_goes_with_its_failure) {
  auto instance = StartPublisher();
  instance->reporter.SetDaemon({"10.0.0.1", "i1", kDomainUid, 3, api::DaemonState::kNotReady, {}, kDomain, "why"});
  executor.RunPosted();
  EXPECT_EQ(Stored().status.daemon.message, "why");
  instance->reporter.SetDaemon({"10.0.0.1", "i2", kDomainUid, 3, api::DaemonState::kReady, {}, kDomain});
  executor.RunPosted();
  EXPECT_EQ(Stored().status.daemon.message, "");
}

TEST_F(NodeReporterTest, channel_counts_as_reported_only_when_the_server_has_it) {
  auto instance = StartPublisher();
  Assign(kDomainUid);
  Hold(*instance, 1);
  int answered = 0;
  instance->reporter.EnsureReported(red, [&](Status s) { answered += s.has_value(); });
  EXPECT_EQ(answered, 1);  // it was written above; no request now
  const int calls = static_cast<int>(api.calls.size());
  instance->reporter.EnsureReported(red, [&](Status s) { answered += s.has_value(); });
  EXPECT_EQ(answered, 2);
  EXPECT_EQ(static_cast<int>(api.calls.size()), calls);
  instance->reporter.EnsureReported({kDomainUid, 9, kBlueUid}, [&](Status) { answered += 100; });
  executor.RunPosted();
  EXPECT_EQ(answered, 2);
}

TEST_F(NodeReporterTest, channel_of_a_domain_the_node_was_moved_out_of_may_not_be_used) {
  auto instance = StartPublisher();
  Assign(kDomainUid);
  Assign("another-domain-uid");
  Hold(*instance, 1);
  std::optional<Status> answer;
  instance->reporter.EnsureReported(red, [&](Status s) { answer = std::move(s); });
  executor.RunPosted();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error().code, ErrorCode::kConflict);
}

TEST_F(NodeReporterTest, view_is_current_once_the_publisher_has_read_and_while_the_watch_keeps_up) {
  auto instance = Start();
  EXPECT_FALSE(instance->reporter.IsCurrent(nullptr)) << "it has read nothing itself";
  instance->reporter.BecomePublisher(OwnedBy(kOwner));
  executor.RunPosted();
  const auto seen = instance->watch.view()->imex_node;
  EXPECT_TRUE(instance->reporter.IsCurrent(seen));
  Assign(kDomainUid);
  EXPECT_FALSE(instance->reporter.IsCurrent(seen)) << "an older version";
  EXPECT_TRUE(instance->reporter.IsCurrent(instance->watch.view()->imex_node));
}

// The instance before it has reported all there is: nothing else would bring the two together again.
TEST_F(NodeReporterTest, failed_read_of_a_new_publisher_is_tried_again_although_there_is_nothing_to_write) {
  {
    auto former = StartPublisher();
  }
  auto instance = Start();
  FailReads();
  instance->reporter.BecomePublisher(OwnedBy(kOwner));
  executor.RunPosted();
  EXPECT_FALSE(instance->reporter.IsCurrent(instance->watch.view()->imex_node));
  api.fault = nullptr;
  executor.Advance(Duration(1'000));
  EXPECT_TRUE(instance->reporter.IsCurrent(instance->watch.view()->imex_node));
}

TEST_F(NodeReporterTest, withdrawal_ends_only_after_the_server_heard_of_it) {
  auto instance = StartPublisher();
  Hold(*instance, 1);
  api.fault = [](const kube::ApiRequest& request) -> std::optional<Error> {
    if (request.verb != kube::Verb::kPatch) return std::nullopt;
    return Error{ErrorCode::kUnavailable, "down", std::nullopt};
  };
  Release(*instance, 1);
  EXPECT_EQ(instance->state.last().withdrawing.size(), 1u);
  executor.Advance(Duration(3'000));
  EXPECT_EQ(instance->state.last().withdrawing.size(), 1u);
  api.fault = nullptr;
  executor.Advance(Duration(1'000));
  EXPECT_THAT(instance->state.last().withdrawing, IsEmpty());
  EXPECT_THAT(Stored().status.channels, IsEmpty());
}

TEST_F(NodeReporterTest, withdrawal_that_cannot_be_recorded_is_tried_again) {
  auto instance = StartPublisher();
  Hold(*instance, 1);
  api.answer_delay = Duration(1'000);
  Release(*instance, 1);
  FileLock other(dir.path() / "plugin" / "serialize.lock");
  ASSERT_TRUE(*other.TryLock());
  executor.Advance(Duration(11'500));
  EXPECT_THAT(Stored().status.channels, IsEmpty());
  EXPECT_EQ(instance->state.last().withdrawing.size(), 1u);
  other.Unlock();
  executor.Advance(Duration(1'000));
  EXPECT_THAT(instance->state.last().withdrawing, IsEmpty());
}

TEST_F(NodeReporterTest, controllers_write_in_between_is_read_and_the_report_written_again) {
  auto instance = StartPublisher();
  // The watch has not told of this yet when the next report is computed.
  auto object = *api.Find(api::kImexNodes, {"", kNode});
  object["spec"]["domain"] = {{"name", kDomain}, {"uid", kDomainUid}, {"index", 3}};
  api.Put(api::kImexNodes, object);
  instance->reporter.SetDaemon({"10.0.0.1", "i1", kDomainUid, 3, api::DaemonState::kReady, {}});
  executor.RunPosted();
  EXPECT_EQ(Stored().status.daemon.state, api::DaemonState::kReady);
  ASSERT_TRUE(Stored().domain);
  EXPECT_EQ(Stored().domain->index, 3);
}

TEST_F(NodeReporterTest, late_write_of_a_dead_instance_cannot_take_a_report_back) {
  auto dead = StartPublisher();
  const std::string version = (*api.Find(api::kImexNodes, {"", kNode}))["metadata"]["resourceVersion"];
  dead.reset();
  auto alive = StartPublisher();
  Hold(*alive, 1);
  ASSERT_THAT(Stored().status.channels, ElementsAre(red));
  // What the dead one had on its way: a report without the channel, computed for the version it knew.
  const nlohmann::json late{{"metadata", {{"resourceVersion", version}}}, {"status", {{"channels", nlohmann::json::array()}}}};
  std::optional<Error> refused;
  api.Call(kube::MergePatch(api::kImexNodes, {"", kNode}, late, "status"), [&](Result<nlohmann::json> answer) {
    if (!answer) refused = answer.error();
  });
  executor.RunPosted();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, ErrorCode::kConflict);
  EXPECT_THAT(Stored().status.channels, ElementsAre(red));
}

TEST_F(NodeReporterTest, instance_that_does_not_publish_waits_for_the_other_and_asks_the_server) {
  auto publisher = StartPublisher();
  Assign(kDomainUid);
  auto second = Start();
  Hold(*second, 1);  // recorded by the second; the first has not looked yet
  int answered = 0;
  second->reporter.EnsureReported(red, [&](Status s) { answered += s.has_value(); });
  executor.RunPosted();
  EXPECT_EQ(answered, 0);
  publisher->state.Refresh();  // its watch of the checkpoint's directory
  executor.RunPosted();
  EXPECT_EQ(answered, 1);
  EXPECT_THAT(Stored().status.channels, ElementsAre(red));
}

TEST_F(NodeReporterTest, registration_with_the_kubelet_is_told_and_outlives_the_process_that_told_it) {
  auto first = StartPublisher();
  EXPECT_EQ(Stored().status.plugin_registered, "");
  first->reporter.SetRegistered("10:00");
  executor.RunPosted();
  EXPECT_EQ(Stored().status.plugin_registered, "10:00");
  first.reset();
  auto second = Start();
  second->reporter.BecomePublisher(OwnedBy(kOwner));
  Hold(*second, 1);
  EXPECT_EQ(Stored().status.plugin_registered, "10:00");
  second->reporter.SetRegistered("10:05");
  executor.RunPosted();
  EXPECT_EQ(Stored().status.plugin_registered, "10:05");
}

TEST_F(NodeReporterTest, lost_prepare_is_told_until_the_claim_is_prepared_or_it_is_no_news_any_more) {
  auto instance = Start();
  instance->reporter.BecomePublisher(OwnedBy(kOwner));
  instance->reporter.PrepareEnded("claim-1", true);
  instance->reporter.PrepareEnded("claim-2", true);
  executor.RunPosted();
  ASSERT_EQ(Stored().status.lost_prepares.size(), 2u);
  EXPECT_EQ(Stored().status.lost_prepares[0].claim_uid, "claim-1");
  instance->reporter.PrepareEnded("claim-1", false);
  executor.RunPosted();
  ASSERT_EQ(Stored().status.lost_prepares.size(), 1u);
  EXPECT_EQ(Stored().status.lost_prepares[0].claim_uid, "claim-2");
  executor.Advance(Duration(120'000));
  EXPECT_THAT(Stored().status.lost_prepares, IsEmpty());
}

TEST_F(NodeReporterTest, server_that_keeps_something_else_is_not_written_to_without_pause) {
  api.admit = [](nlohmann::json& object) {
    if (object.contains("status")) object["status"].erase("driverVersion");
  };
  auto instance = StartPublisher();
  EXPECT_EQ(api.Count("patch imexnodes/status"), 1);
  executor.Advance(Duration(3'000));
  EXPECT_LE(api.Count("patch imexnodes/status"), 4);
}

}  // namespace
}  // namespace cd::plugin
