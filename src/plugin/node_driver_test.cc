// Prepare and Unprepare end to end below gRPC: state of disk and API, and the number of calls.
#include <gmock/gmock.h>

#include "src/plugin/node_driver_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(NodeDriverTest, first_pod_announces_checks_and_gets_the_leased_channel) {
  Prepare(ClaimRef(1));
  ASSERT_EQ(Error(), "prepared");
  ASSERT_EQ(results[0]->size(), 1u);
  const PreparedDevice& device = results[0]->front();
  EXPECT_EQ(device.device, "channel-0");
  EXPECT_EQ(device.pool, kNode);
  EXPECT_EQ(device.share_id, "aaaaaaaa-0000-4000-8000-000000000001");
  EXPECT_THAT(device.cdi_ids, ElementsAre("compute-domain.nvidia.com/claim=" + ClaimUid(1)));
  EXPECT_THAT(report.asked, ElementsAre(api::NodeChannel{kDomainUid, 7, kRedUid, kDomain}));
  // Two reads of the claim around the announcement, one of the domain after it; the report is the reporter's one write.
  EXPECT_THAT(api.calls, ElementsAre("get resourceclaims", "get imexdomains", "get resourceclaims"));
  EXPECT_EQ(Stored().claims.at(ClaimUid(1)).phase, ClaimPhase::kCompleted);
  const auto spec = nlohmann::json::parse(Slurp(CdiPath(1)));
  EXPECT_EQ(spec["devices"][0]["containerEdits"]["deviceNodes"][0]["path"], "/dev/nvidia-caps-imex-channels/channel7");
}

TEST_F(NodeDriverTest, further_pod_of_a_compute_domain_is_checked_and_costs_no_write) {
  api.Put(api::kResourceClaims, ClaimObject(ClaimRef(2), kRedUid));
  Prepare(ClaimRef(1));
  api.calls.clear();
  Prepare(ClaimRef(2), 2);
  EXPECT_EQ(Error(1), "prepared");
  EXPECT_THAT(api.calls, ElementsAre("get resourceclaims", "get imexdomains", "get resourceclaims"));
  // The reporter writes nothing for a channel that stands in the report.
  EXPECT_THAT(report.asked, ElementsAre(report.asked[0], report.asked[0]));
}

TEST_F(NodeDriverTest, further_pod_does_not_start_by_a_lease_that_is_drained) {
  api.Put(api::kResourceClaims, ClaimObject(ClaimRef(2), kRedUid));
  Prepare(ClaimRef(1));
  Unprepare(driver, ClaimRef(1));  // its process may live, so the channel stays reported
  StoreDomain({Lease(7, kRedUid, "red-ns", api::LeaseState::kDraining)});
  Prepare(ClaimRef(2), 2);
  EXPECT_THAT(Error(1), HasSubstr("channel 7 of IMEXDomain"));
  EXPECT_THAT(Error(1), HasSubstr("is no longer granted to ComputeDomain"));
  EXPECT_FALSE(std::filesystem::exists(CdiPath(2)));
}

TEST_F(NodeDriverTest, allocation_without_share_id_is_served) {
  api.Put(api::kResourceClaims, ClaimObject(ClaimRef(1), kRedUid, "channel-5"));
  Prepare(ClaimRef(1));
  ASSERT_EQ(Error(), "prepared");
  EXPECT_EQ(results[0]->front().share_id, std::nullopt);
  EXPECT_EQ(results[0]->front().device, "channel-5");
}

TEST_F(NodeDriverTest, results_of_other_drivers_are_passed_over) {
  auto claim = ClaimObject(ClaimRef(1), kRedUid);
  claim["status"]["allocation"]["devices"]["results"].push_back(
      {{"request", "gpu"}, {"driver", "gpu.nvidia.com"}, {"pool", "elsewhere"}, {"device", "gpu-0"}});
  api.Put(api::kResourceClaims, claim);
  Prepare(ClaimRef(1));
  ASSERT_EQ(Error(), "prepared");
  EXPECT_EQ(results[0]->size(), 1u);
}

TEST_F(NodeDriverTest, prepared_claim_is_answered_without_the_api_and_gets_its_cdi_spec_again) {
  Prepare(ClaimRef(1));
  std::filesystem::remove(CdiPath(1));
  api.calls.clear();
  Prepare(ClaimRef(1), 2);
  EXPECT_EQ(Error(1), "prepared");
  EXPECT_EQ(*results[0], *results[1]);
  EXPECT_THAT(api.calls, IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(CdiPath(1)));
}

TEST_F(NodeDriverTest, two_calls_for_one_claim_share_one_result) {
  report.answering = false;
  Prepare(ClaimRef(1), 1);
  Prepare(ClaimRef(1), 2);
  EXPECT_THAT(results, IsEmpty());
  ASSERT_EQ(report.held.size(), 1u);
  report.held[0]({});
  executor.RunPosted();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(Error(0), "prepared");
  EXPECT_EQ(Error(1), "prepared");
  EXPECT_EQ(api.Count("get imexdomains"), 1);
}

TEST_F(NodeDriverTest, wait_without_a_lease_ends_after_ten_seconds_and_says_what_is_missing) {
  SetDomain({});
  api.Put(api::kComputeDomains, {{"metadata", {{"name", "red"}, {"namespace", "red-ns"}, {"uid", kRedUid}}},
                                 {"spec", {{"channel", {{"resourceClaimTemplate", {{"name", "t"}}}}}}}});
  Prepare(ClaimRef(1));
  executor.Advance(kPrepareLimit - Duration(1));
  EXPECT_THAT(results, IsEmpty());
  executor.Advance(Duration(1));
  EXPECT_THAT(Error(), HasSubstr("not ready after 10 s: the controller has not granted a channel"));
  ExpectNothingWritten();
  EXPECT_EQ(executor.PendingTimers(), 0u);
}

// What it would start could be imported by nobody in the domain, and would keep the node from leaving it.
TEST_F(NodeDriverTest, node_whose_gpus_have_moved_refuses_and_records_nothing_until_it_is_where_they_are) {
  SetDomain({Lease(7, kRedUid)});
  view.clique_ids = {"another.clique"};
  driver.SetView(std::make_shared<NodeView>(view));
  Prepare(ClaimRef(1));
  executor.Advance(kPrepareLimit);
  EXPECT_THAT(Error(), HasSubstr("GPUs are in another.clique now"));
  EXPECT_THAT(Error(), HasSubstr("delete them"));
  ExpectNothingWritten();
}

TEST_F(NodeDriverTest, daemon_ready_at_the_last_moment_is_not_given_up_for_the_apis_answers) {
  view.daemon.state = api::DaemonState::kStarting;
  driver.SetView(std::make_shared<NodeView>(view));
  report.answering = false;
  Prepare(ClaimRef(1));
  executor.Advance(kPrepareLimit - Duration(1));
  view.daemon = ReadyDaemon();
  driver.SetView(std::make_shared<NodeView>(view));
  executor.Advance(Duration(1'000));
  EXPECT_THAT(results, IsEmpty());
  report.held.at(0)({});
  executor.RunPosted();
  EXPECT_EQ(Error(), "prepared");
  EXPECT_EQ(executor.PendingTimers(), 0u);
}

TEST_F(NodeDriverTest, report_that_never_comes_ends_the_wait_after_the_overtime) {
  report.answering = false;
  Prepare(ClaimRef(1));
  executor.Advance(kPrepareLimit + kOvertime - Duration(1));
  EXPECT_THAT(results, IsEmpty());
  executor.Advance(Duration(1));
  EXPECT_THAT(Error(), HasSubstr("the API server does not answer"));
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, lease_that_comes_while_waiting_is_taken) {
  SetDomain({});
  Prepare(ClaimRef(1));
  EXPECT_THAT(results, IsEmpty());
  SetDomain({Lease(7, kRedUid)});
  executor.RunPosted();
  EXPECT_EQ(Error(), "prepared");
}

TEST_F(NodeDriverTest, daemon_that_is_not_ready_is_awaited_with_the_start_recorded) {
  view.daemon.state = api::DaemonState::kStarting;
  driver.SetView(std::make_shared<NodeView>(view));
  Prepare(ClaimRef(1));
  EXPECT_THAT(report.asked, IsEmpty());
  EXPECT_EQ(Stored().claims.at(ClaimUid(1)).phase, ClaimPhase::kStarted);
  view.daemon = ReadyDaemon();
  driver.SetView(std::make_shared<NodeView>(view));
  executor.RunPosted();
  EXPECT_EQ(Error(), "prepared");
}

TEST_F(NodeDriverTest, daemon_that_the_others_do_not_see_starts_nobody) {
  api::ImexDomain domain = *view.domain;
  domain.members.front().unseen = true;
  view.domain = std::make_shared<api::ImexDomain>(domain);
  driver.SetView(std::make_shared<NodeView>(view));
  Prepare(ClaimRef(1));
  EXPECT_THAT(report.asked, IsEmpty());
  domain.members.front().unseen = false;
  view.domain = std::make_shared<api::ImexDomain>(domain);
  driver.SetView(std::make_shared<NodeView>(view));
  executor.RunPosted();
  EXPECT_EQ(Error(), "prepared");
}

TEST_F(NodeDriverTest, daemon_of_another_domain_does_not_count_as_ready) {
  view.daemon.domain_uid = "66666666-6666-4666-8666-666666666666";
  driver.SetView(std::make_shared<NodeView>(view));
  Prepare(ClaimRef(1));
  executor.Advance(kPrepareLimit);
  EXPECT_THAT(Error(), HasSubstr("the IMEX daemon has not joined IMEXDomain"));
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, lease_draining_in_the_check_after_the_announcement_refuses) {
  nlohmann::json drained = api::EncodeImexDomain(DomainObject({Lease(7, kRedUid, "red-ns", api::LeaseState::kDraining)}));
  drained["metadata"]["uid"] = kDomainUid;
  api.Put(api::kImexDomains, drained);  // the watch has not heard of it
  Prepare(ClaimRef(1));
  EXPECT_THAT(Error(), HasSubstr("is no longer granted"));
  EXPECT_TRUE(Stored().claims.empty());
  EXPECT_EQ(Stored().withdrawing.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
}

// The kubelet unprepares a claim's last user while its next one is being prepared, and tries again only a minute later.
TEST_F(NodeDriverTest, prepare_lost_to_an_unprepare_is_reported_until_one_succeeds) {
  report.answering = false;
  Prepare(ClaimRef(1));
  Unprepare(driver, ClaimRef(1));
  EXPECT_THAT(Error(), HasSubstr("was unprepared while this Prepare was under way"));
  EXPECT_THAT(report.lost, ElementsAre(ClaimUid(1)));
  EXPECT_THAT(report.ended, IsEmpty());
  state.Transact(
      [](Checkpoint& c) {
        EndWithdrawal(c, c.withdrawing);
        return Status{};
      },
      [](Status) {});
  report.answering = true;
  Prepare(ClaimRef(1));
  EXPECT_THAT(report.ended, ElementsAre(ClaimUid(1)));
}

TEST_F(NodeDriverTest, prepare_the_kubelet_gave_up_is_not_reported_as_lost) {
  report.answering = false;
  Prepare(ClaimRef(1), 7);
  driver.Cancelled(7);
  executor.RunPosted();
  EXPECT_THAT(report.lost, IsEmpty());
}

TEST_F(NodeDriverTest, domain_of_the_same_name_with_another_uid_refuses) {
  nlohmann::json other = api::EncodeImexDomain(DomainObject({Lease(7, kRedUid)}));
  other["metadata"]["uid"] = "77777777-7777-4777-8777-777777777777";
  api.Put(api::kImexDomains, other);
  Prepare(ClaimRef(1));
  EXPECT_THAT(Error(), HasSubstr("is no longer granted"));
}

TEST_F(NodeDriverTest, channel_being_withdrawn_is_announced_anew_after_the_withdrawal) {
  Prepare(ClaimRef(1));
  Unprepare(driver, ClaimRef(1));
  state.Transact(
      [](Checkpoint& c) {
        EndLingering(c, ClaimUid(1));
        return Status{};
      },
      [](Status) {});
  ASSERT_EQ(Stored().withdrawing.size(), 1u);
  report.asked.clear();
  Prepare(ClaimRef(1), 2);
  EXPECT_EQ(results.size(), 1u);
  EXPECT_THAT(report.asked, IsEmpty());
  state.Transact(
      [](Checkpoint& c) {
        c.withdrawing.clear();
        return Status{};
      },
      [](Status) {});
  driver.CheckpointChanged();
  executor.RunPosted();
  EXPECT_EQ(Error(1), "prepared");
  EXPECT_EQ(report.asked.size(), 1u);
}

TEST_F(NodeDriverTest, channel_held_for_another_compute_domain_is_not_given_away) {
  Prepare(ClaimRef(1));
  Unprepare(driver, ClaimRef(1));  // processes may live: the channel lingers
  api.Put(api::kResourceClaims, ClaimObject(ClaimRef(2, "blue-ns"), kBlueUid));
  SetDomain({Lease(7, kBlueUid, "blue-ns")});  // a controller that went wrong
  Prepare(ClaimRef(2, "blue-ns"), 2);
  EXPECT_THAT(Error(1), HasSubstr("is still held on this node"));
}

TEST_F(NodeDriverTest, unprepare_needs_no_api_and_lets_the_channel_linger) {
  Prepare(ClaimRef(1));
  api.calls.clear();
  Unprepare(driver, ClaimRef(1));
  EXPECT_THAT(api.calls, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
  EXPECT_TRUE(std::filesystem::exists(MarkerPath(1)));
  EXPECT_TRUE(Stored().claims.empty());
  EXPECT_EQ(Stored().lingering.at(ClaimUid(1)).channel, 7);
  EXPECT_THAT(HeldChannels(Stored()), ElementsAre(api::NodeChannel{kDomainUid, 7, kRedUid, kDomain}));
}

TEST_F(NodeDriverTest, unprepare_of_an_unknown_claim_succeeds) {
  Unprepare(driver, ClaimRef(5));
}

TEST_F(NodeDriverTest, claim_unprepared_and_prepared_again_works) {
  Prepare(ClaimRef(1));
  Unprepare(driver, ClaimRef(1));
  Prepare(ClaimRef(1), 2);
  EXPECT_EQ(Error(1), "prepared");
  EXPECT_TRUE(Stored().lingering.empty());
}

TEST_F(NodeDriverTest, daemons_claim_gets_files_and_capability_without_the_api_objects) {
  const api::ObjectRef claim{"computedomain-system", "daemon-1", ClaimUid(3)};
  api.Put(api::kResourceClaims, ClaimObject(claim, "", "daemon"));
  driver.SetView(std::make_shared<NodeView>());
  Prepare(claim);
  ASSERT_EQ(Error(), "prepared");
  EXPECT_THAT(report.asked, IsEmpty());
  EXPECT_THAT(HeldChannels(Stored()), IsEmpty());
  Unprepare(driver, claim);
  EXPECT_TRUE(Stored().claims.empty());
  EXPECT_TRUE(Stored().lingering.empty());
  EXPECT_FALSE(std::filesystem::exists(MarkerPath(3)));
}

// Its container may be restarted without another Prepare, and needs the CDI spec then.
TEST_F(NodeDriverTest, daemons_claim_outlives_a_damaged_checkpoint) {
  const api::ObjectRef claim{"computedomain-system", "daemon-1", ClaimUid(3)};
  api.Put(api::kResourceClaims, ClaimObject(claim, "", "daemon"));
  Prepare(claim);
  ASSERT_EQ(Error(), "prepared");
  dir.Write("plugin/checkpoint.json", "{");
  state.Refresh();
  executor.RunPosted();
  const Checkpoint rebuilt = Stored();
  ASSERT_NE(FindCompleted(rebuilt, ClaimUid(3)), nullptr);
  files.RemoveStrays(rebuilt);
  EXPECT_TRUE(std::filesystem::exists(CdiPath(3)));
  EXPECT_THAT(HeldChannels(rebuilt), IsEmpty());

  Unprepare(driver, claim);
  dir.Write("plugin/checkpoint.json", "{");
  state.Refresh();
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, channel_without_the_kernel_driver_says_what_is_missing) {
  dir.Write("devices", "Character devices:\n  1 mem\n");
  Prepare(ClaimRef(1));
  EXPECT_THAT(Error(), HasSubstr("IMEX channel device: "));
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, acknowledged_maintenance_lets_nothing_be_prepared) {
  state.Transact([](Checkpoint& c) { return SetMaintenance(c, "upgrade-1"); }, [](const Status& s) { EXPECT_TRUE(s); });
  Prepare(ClaimRef(1));
  EXPECT_THAT(Error(), HasSubstr("the node is under maintenance (upgrade-1)"));
  EXPECT_TRUE(Stored().claims.empty());
}

}  // namespace
}  // namespace cd::plugin
