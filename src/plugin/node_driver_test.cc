// Prepare and Unprepare end to end below gRPC: state of disk and API, and the number of calls.
#include "src/plugin/node_driver.h"

#include <gmock/gmock.h>

#include "src/plugin/prepare_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Says yes at once, never, or no, and remembers what it was asked for.
class FakeReport final : public ChannelReport {
 public:
  void EnsureReported(const api::NodeChannel& channel, std::function<void(Status)> done) override {
    asked.push_back(channel);
    if (answering) {
      done(answer);
    } else {
      held.push_back(std::move(done));
    }
  }
  void PrepareEnded(const std::string& claim_uid, bool is_lost) override { (is_lost ? lost : ended).push_back(claim_uid); }
  std::vector<std::string> lost, ended;
  std::vector<api::NodeChannel> asked;
  bool answering = true;
  Status answer;
  std::vector<std::function<void(Status)>> held;
};

class NodeDriverTest : public ::testing::Test {
 protected:
  NodeDriverTest() {
    WriteDriver(dir);
    EXPECT_TRUE(files.MakeDirectories());
    api.Put(api::kResourceClaims, ClaimObject(ClaimRef(1), kRedUid));
    SetDomain({Lease(7, kRedUid)});
  }

  void SetDomain(std::vector<api::ChannelLease> leases) {
    nlohmann::json object = api::EncodeImexDomain(DomainObject(leases));
    object["metadata"]["uid"] = kDomainUid;
    api.Put(api::kImexDomains, std::move(object));
    view = ViewOf(std::move(leases));
    driver.SetView(std::make_shared<NodeView>(view));
  }
  // A node that surely has no fabric, and what the controller says to it.
  void SetNoFabric(std::vector<api::Exemption> exemptions) {
    view = NodeView();
    view.node = kNode;
    view.no_fabric = true;
    api::ImexNode node;
    node.meta.name = kNode;
    node.exemptions = std::move(exemptions);
    view.imex_node = std::make_shared<api::ImexNode>(std::move(node));
    driver.SetView(std::make_shared<NodeView>(view));
  }
  void Prepare(NodeDriver& who, const api::ObjectRef& claim, CallId call = 1) {
    who.Prepare(call, claim, [this](PrepareResult result) { results.push_back(std::move(result)); });
    executor.RunPosted();
  }
  void Prepare(const api::ObjectRef& claim, CallId call = 1) { Prepare(driver, claim, call); }
  void Unprepare(NodeDriver& who, const api::ObjectRef& claim) {
    Status result = Fail(ErrorCode::kInternal, "not answered");
    who.Unprepare(claim, [&](Status s) { result = std::move(s); });
    executor.RunPosted();
    EXPECT_TRUE(result) << result.error().message;
  }
  std::string Error(std::size_t index = 0) {
    if (results.size() <= index) return "no answer";
    return results[index] ? "prepared" : results[index].error().message;
  }
  Checkpoint Stored() {
    const auto text = Slurp(state.path());
    return text.empty() ? Checkpoint{} : DecodeCheckpoint(text).value();
  }
  std::filesystem::path CdiPath(int n) {
    return dir.path() / "cdi" / ("compute-domain.nvidia.com-claim_" + ClaimUid(n) + ".json");
  }
  std::filesystem::path MarkerPath(int n) { return dir.path() / "plugin" / "claims" / (ClaimUid(n) + ".json"); }
  // Nothing of a claim anywhere on this node.
  void ExpectNothingWritten() {
    EXPECT_TRUE(Stored().claims.empty());
    EXPECT_TRUE(Stored().lingering.empty());
    EXPECT_TRUE(std::filesystem::is_empty(dir.path() / "cdi"));
    EXPECT_TRUE(std::filesystem::is_empty(dir.path() / "plugin" / "claims"));
    EXPECT_THAT(report.asked, IsEmpty());
  }

  TempDir dir;
  ManualExecutor executor;
  FakeApi api{executor};
  ClaimFiles files{PathsIn(dir)};
  NodeState state{executor, dir.path() / "plugin", "boot-1", files};
  FakeReport report;
  NodeDriver driver{executor, api, state, files, report, {kNode, "computedomain-system", "pod-a"}};
  NodeView view;
  std::vector<PrepareResult> results;
};

TEST_F(NodeDriverTest, node_without_fabric_prepares_an_exempt_domain_without_channel) {
  SetNoFabric({{{"red-ns", "red", kRedUid}}});
  Prepare(ClaimRef(1));
  EXPECT_EQ(Error(), "prepared");
  EXPECT_TRUE(report.asked.empty()) << "there is no channel to announce";
  EXPECT_TRUE(HeldChannels(Stored()).empty());
  EXPECT_THAT(Slurp(CdiPath(1)), HasSubstr("NVIDIA_COMPUTE_DOMAIN_FABRIC=false"));
  Unprepare(driver, ClaimRef(1));
  EXPECT_TRUE(Stored().claims.empty());
  EXPECT_TRUE(Stored().lingering.empty());
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "plugin" / "claims" / (ClaimUid(1) + ".json")));
}

TEST_F(NodeDriverTest, held_pod_leaves_no_trace_and_goes_when_its_claim_is_released) {
  auto lease = Lease(7, kRedUid);
  lease.released = false;
  SetDomain({lease});
  Prepare(ClaimRef(1));
  executor.Advance(Duration(3'000));
  EXPECT_EQ(Error(), "no answer");
  EXPECT_EQ(api.Count("list computedomains"), 0) << "why it waits is known";
  ExpectNothingWritten();
  lease.released_claims = {ClaimUid(2)};
  SetDomain({lease});
  executor.RunPosted();
  EXPECT_EQ(Error(), "no answer") << "another claim's release";
  lease.released_claims = {ClaimUid(1), ClaimUid(2)};
  SetDomain({lease});
  executor.RunPosted();
  EXPECT_EQ(Error(), "prepared");
}

TEST_F(NodeDriverTest, held_pod_is_told_where_to_look_and_a_refusal_ends_the_wait) {
  auto lease = Lease(7, kRedUid);
  lease.released = false;
  SetDomain({lease});
  Prepare(ClaimRef(1));
  executor.Advance(Duration(10'000));
  EXPECT_THAT(Error(), HasSubstr("held until it has formed"));
  EXPECT_THAT(Error(), HasSubstr("condition Formed"));
  auto domain = DomainObject({lease});
  domain.refusals = {{kNode, kRedUid, "GateTimedOut", "too late"}};
  view.domain = std::make_shared<api::ImexDomain>(domain);
  driver.SetView(std::make_shared<NodeView>(view));
  Prepare(ClaimRef(1), 2);
  executor.Advance(Duration(2'000));
  EXPECT_THAT(Error(1), HasSubstr("GateTimedOut: too late"));
}

TEST_F(NodeDriverTest, gating_holds_pods_without_channel_as_well) {
  SetNoFabric({{{"red-ns", "red", kRedUid}, false, {}}});
  Prepare(ClaimRef(1));
  EXPECT_EQ(Error(), "no answer");
  SetNoFabric({{{"red-ns", "red", kRedUid}, false, {ClaimUid(1)}}});
  executor.RunPosted();
  EXPECT_EQ(Error(), "prepared");
}

TEST_F(NodeDriverTest, exemption_of_another_namespaces_domain_is_refused) {
  SetNoFabric({{{"blue-ns", "red", kRedUid}}});
  Prepare(ClaimRef(1));
  EXPECT_THAT(Error(), HasSubstr("another namespace"));
}

TEST_F(NodeDriverTest, exemption_counts_only_while_the_node_surely_has_no_fabric) {
  SetNoFabric({{{"red-ns", "red", kRedUid}}});
  view.no_fabric = false;
  view.fabric_message = "2 of 4 GPUs degraded";
  api.Put(api::kComputeDomains, {{"metadata", {{"name", "red"}, {"namespace", "red-ns"}, {"uid", kRedUid}}},
                                 {"spec", {{"channel", {{"resourceClaimTemplate", {{"name", "t"}}}}}}}});
  driver.SetView(std::make_shared<NodeView>(view));
  Prepare(ClaimRef(1));
  executor.Advance(Duration(11'000));
  EXPECT_THAT(Error(), HasSubstr("2 of 4 GPUs degraded"));
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
}

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

TEST_F(NodeDriverTest, further_pod_of_a_compute_domain_costs_one_read) {
  api.Put(api::kResourceClaims, ClaimObject(ClaimRef(2), kRedUid));
  Prepare(ClaimRef(1));
  api.calls.clear();
  report.asked.clear();
  Prepare(ClaimRef(2), 2);
  EXPECT_EQ(Error(1), "prepared");
  EXPECT_THAT(api.calls, ElementsAre("get resourceclaims"));
  EXPECT_THAT(report.asked, IsEmpty());
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

struct BadClaim {
  const char* name;
  std::function<void(nlohmann::json&)> edit;
  const char* says;
};

class BadInputTest : public NodeDriverTest, public ::testing::WithParamInterface<BadClaim> {};

TEST_P(BadInputTest, is_refused_with_a_reason_and_leaves_nothing) {
  auto claim = ClaimObject(ClaimRef(1), kRedUid);
  GetParam().edit(claim);
  api.Put(api::kResourceClaims, claim);
  Prepare(ClaimRef(1));
  executor.Advance(kPrepareLimit);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(Error(), HasSubstr(GetParam().says));
  EXPECT_NE(results[0].error().code, ErrorCode::kDeadlineExceeded);
  ExpectNothingWritten();
  Unprepare(driver, ClaimRef(1));
}

nlohmann::json& Parameters(nlohmann::json& claim) {
  return claim["status"]["allocation"]["devices"]["config"][0]["opaque"]["parameters"];
}
nlohmann::json& FirstResult(nlohmann::json& claim) {
  return claim["status"]["allocation"]["devices"]["results"][0];
}

INSTANTIATE_TEST_SUITE_P(
    BadInput, BadInputTest,
    ::testing::Values(
        BadClaim{"unknown_domain_id", [](auto& c) { Parameters(c)["domainID"] = "99999999-9999-4999-8999-999999999999"; },
                 "domainID: there is no ComputeDomain with UID 99999999"},
        BadClaim{"path_like_domain_id", [](auto& c) { Parameters(c)["domainID"] = "../../etc/passwd"; }, "domainID: "},
        BadClaim{"unknown_field", [](auto& c) { Parameters(c)["channelNumber"] = 3; }, "channelNumber"},
        BadClaim{"wrong_case_of_allocation_mode", [](auto& c) { Parameters(c)["allocationMode"] = "all"; }, "allocationMode"},
        BadClaim{"allocation_mode_of_another_kind", [](auto& c) { Parameters(c)["allocationMode"] = "All"; },
                 "allocationMode: All, but ComputeDomain red-ns/red has spec.channel.allocationMode Single"},
        BadClaim{"no_config", [](auto& c) { c["status"]["allocation"]["devices"].erase("config"); }, "red-ns/claim-1"},
        BadClaim{"replaced_claim", [](auto& c) { c["metadata"]["uid"] = ClaimUid(9); }, "was replaced by another"},
        BadClaim{"not_allocated", [](auto& c) { c["status"].erase("allocation"); }, "is not allocated"},
        BadClaim{"other_node", [](auto& c) { FirstResult(c)["pool"] = "node-9"; }, "is allocated on node \"node-9\""},
        BadClaim{"unknown_device", [](auto& c) { FirstResult(c)["device"] = "gpu-3"; }, "device \"gpu-3\""},
        BadClaim{"deleted_claim", [](auto& c) { c["metadata"]["deletionTimestamp"] = "2026-11-30T18:00:00Z"; },
                 "is being deleted"},
        BadClaim{"daemon_for_a_tenant", [](auto& c) { FirstResult(c)["device"] = "daemon"; },
                 "is for namespace \"computedomain-system\" alone"}),
    [](const auto& param_info) { return param_info.param.name; });

TEST_F(NodeDriverTest, compute_domain_of_another_namespace_is_refused) {
  const auto claim = ClaimRef(2, "blue-ns");
  api.Put(api::kResourceClaims, ClaimObject(claim, kRedUid));
  Prepare(claim);
  EXPECT_THAT(Error(), HasSubstr("is a ComputeDomain of another namespace than \"blue-ns\""));
  ExpectNothingWritten();
}

TEST_F(NodeDriverTest, path_like_claim_uid_reaches_no_path) {
  const api::ObjectRef claim{"red-ns", "claim-1", "../../../evil"};
  auto object = ClaimObject(claim, kRedUid);
  api.Put(api::kResourceClaims, object);
  Prepare(claim);
  EXPECT_THAT(Error(), HasSubstr("claim UID: not a UID"));
  Unprepare(driver, claim);
  ExpectNothingWritten();
}

TEST_F(NodeDriverTest, what_is_no_name_is_asked_of_nobody) {
  for (const api::ObjectRef& claim : {api::ObjectRef{"", "", ""},
                                      {"..", "claim-1", ClaimUid(1)},
                                      {"red-ns", "", ClaimUid(1)},
                                      {"red-ns", "a/b", ClaimUid(1)}}) {
    results.clear();
    Prepare(claim);
    EXPECT_THAT(Error(), HasSubstr("claim"));
  }
  EXPECT_THAT(api.calls, IsEmpty());
  ExpectNothingWritten();
}

TEST_F(NodeDriverTest, allocation_mode_that_is_not_the_compute_domains_is_refused_naming_both) {
  SetDomain({});
  api.Put(api::kComputeDomains,
          {{"metadata", {{"name", "red"}, {"namespace", "red-ns"}, {"uid", kRedUid}}},
           {"spec", {{"channel", {{"resourceClaimTemplate", {{"name", "t"}}}, {"allocationMode", "All"}}}}}});
  Prepare(ClaimRef(1));
  executor.Advance(kExplainAfter);
  EXPECT_THAT(Error(), HasSubstr("allocationMode: Single, but ComputeDomain red-ns/red has spec.channel.allocationMode All"));
  ExpectNothingWritten();
}

TEST_F(NodeDriverTest, controllers_refusal_is_what_the_pods_event_says) {
  SetDomain({});
  auto domain = DomainObject({});
  domain.refusals = {{kNode, kRedUid, "NoSlot", "all 24 slots are taken; remove a node"}};
  view.domain = std::make_shared<api::ImexDomain>(domain);
  driver.SetView(std::make_shared<NodeView>(view));
  Prepare(ClaimRef(1));
  executor.Advance(kExplainAfter);
  EXPECT_EQ(Error(), "NoSlot: all 24 slots are taken; remove a node");
  EXPECT_EQ(api.Count("list computedomains"), 0);
  ExpectNothingWritten();
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

TEST_F(NodeDriverTest, failed_first_pod_vouches_for_nobody) {
  report.answering = false;
  api.Put(api::kResourceClaims, ClaimObject(ClaimRef(2), kRedUid));
  Prepare(ClaimRef(1), 1);
  Prepare(ClaimRef(2), 2);  // the channel is recorded, but was not checked
  EXPECT_EQ(report.asked.size(), 2u);
  EXPECT_THAT(results, IsEmpty());
}

TEST_F(NodeDriverTest, channel_held_for_another_compute_domain_is_not_given_away) {
  Prepare(ClaimRef(1));
  Unprepare(driver, ClaimRef(1));  // processes may live: the channel lingers
  api.Put(api::kResourceClaims, ClaimObject(ClaimRef(2, "blue-ns"), kBlueUid));
  SetDomain({Lease(7, kBlueUid, "blue-ns")});  // a controller that went wrong
  Prepare(ClaimRef(2, "blue-ns"), 2);
  EXPECT_THAT(Error(1), HasSubstr("channel 7 is still held on this node"));
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

TEST_F(NodeDriverTest, unprepare_kills_a_prepare_in_flight) {
  report.answering = false;
  Prepare(ClaimRef(1));
  Unprepare(driver, ClaimRef(1));
  EXPECT_THAT(Error(), HasSubstr("was unprepared"));
  report.held[0]({});
  executor.RunPosted();
  EXPECT_EQ(results.size(), 1u);
  EXPECT_TRUE(Stored().claims.empty());
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
}

TEST_F(NodeDriverTest, stale_retry_after_unprepare_by_the_other_instance_is_refused) {
  NodeState other_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver other{executor, api, other_state, files, report, {kNode, "computedomain-system", "pod-b"}};
  report.answering = false;
  Prepare(driver, ClaimRef(1));   // began in this instance, recorded
  Unprepare(other, ClaimRef(1));  // ended in the other
  report.held[0]({});
  executor.RunPosted();
  EXPECT_THAT(Error(), HasSubstr("was unprepared while this Prepare was under way"));
  EXPECT_TRUE(Stored().claims.empty());
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
}

TEST_F(NodeDriverTest, unprepare_by_the_other_instance_before_anything_was_recorded_is_refused_too) {
  NodeState other_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver other{executor, api, other_state, files, report, {kNode, "computedomain-system", "pod-b"}};
  SetDomain({});
  Prepare(driver, ClaimRef(1));  // waits for the lease
  Unprepare(other, ClaimRef(1));
  SetDomain({Lease(7, kRedUid)});
  executor.RunPosted();
  EXPECT_THAT(Error(), HasSubstr("was unprepared while this Prepare was under way"));
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, prepare_taken_over_by_the_other_instance_loses_its_nonce) {
  NodeState other_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver other{executor, api, other_state, files, report, {kNode, "computedomain-system", "pod-b"}};
  other.SetView(std::make_shared<NodeView>(view));
  report.answering = false;
  Prepare(driver, ClaimRef(1), 1);
  Prepare(other, ClaimRef(1), 2);
  report.held[0]({});
  executor.RunPosted();
  EXPECT_THAT(Error(0), HasSubstr("another Prepare of this claim took over"));
  report.held[1]({});
  executor.RunPosted();
  EXPECT_EQ(Error(1), "prepared");
}

TEST_F(NodeDriverTest, what_one_instance_prepared_the_other_unprepares) {
  NodeState other_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver other{executor, api, other_state, files, report, {kNode, "computedomain-system", "pod-b"}};
  Prepare(driver, ClaimRef(1));
  Prepare(other, ClaimRef(1), 2);
  EXPECT_EQ(Error(1), "prepared");
  Unprepare(other, ClaimRef(1));
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, cancelled_call_commits_nothing) {
  report.answering = false;
  Prepare(ClaimRef(1), 8);
  driver.Cancelled(8);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].error().code, ErrorCode::kCancelled);
  report.held[0]({});
  executor.RunPosted();
  EXPECT_TRUE(Stored().claims.empty());
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
  EXPECT_EQ(executor.PendingTimers(), 0u);
}

TEST_F(NodeDriverTest, cancelling_one_of_two_calls_leaves_the_other) {
  report.answering = false;
  Prepare(ClaimRef(1), 8);
  Prepare(ClaimRef(1), 9);
  driver.Cancelled(8);
  EXPECT_EQ(results.size(), 1u);
  report.held[0]({});
  executor.RunPosted();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(Error(1), "prepared");
}

TEST_F(NodeDriverTest, claim_deleted_while_waiting_is_not_committed) {
  report.answering = false;
  Prepare(ClaimRef(1));
  api.Remove(api::kResourceClaims, {"red-ns", "claim-1"});
  report.held[0]({});
  executor.RunPosted();
  EXPECT_THAT(Error(), HasSubstr("ResourceClaim red-ns/claim-1"));
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, silent_api_delays_the_check_of_the_lease_but_not_that_of_the_claim) {
  report.answering = false;
  Prepare(ClaimRef(1));
  api.fault = [](const kube::ApiRequest&) {
    return std::optional<cd::Error>(cd::Error{ErrorCode::kUnavailable, "no route", std::nullopt});
  };
  report.held[0]({});
  executor.RunPosted();
  EXPECT_THAT(results, IsEmpty());
  api.fault = nullptr;
  executor.Advance(kReadRetry);
  EXPECT_EQ(Error(), "prepared");
}

TEST_F(NodeDriverTest, crash_between_start_and_commit_is_finished_by_the_next_prepare) {
  report.answering = false;
  Prepare(ClaimRef(1));
  ASSERT_EQ(Stored().claims.at(ClaimUid(1)).phase, ClaimPhase::kStarted);
  // The process died here; its successor knows only the disk.
  FakeReport fresh_report;
  NodeState fresh_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver fresh{executor, api, fresh_state, files, fresh_report, {kNode, "computedomain-system", "pod-a2"}};
  fresh.SetView(std::make_shared<NodeView>(view));
  Prepare(fresh, ClaimRef(1), 2);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(Error(), "prepared");
  EXPECT_EQ(fresh_report.asked.size(), 1u);  // announced again, checked again
}

TEST_F(NodeDriverTest, crash_between_cdi_spec_and_checkpoint_is_finished_by_the_next_prepare) {
  report.answering = false;
  Prepare(ClaimRef(1));
  ClaimEntry entry = Stored().claims.at(ClaimUid(1));
  ASSERT_TRUE(files.Write(entry));  // what the dying process still did
  FakeReport fresh_report;
  NodeState fresh_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver fresh{executor, api, fresh_state, files, fresh_report, {kNode, "computedomain-system", "pod-a2"}};
  fresh.SetView(std::make_shared<NodeView>(view));
  Prepare(fresh, ClaimRef(1), 2);
  EXPECT_EQ(Error(), "prepared");
  Unprepare(fresh, ClaimRef(1));
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
}

TEST_F(NodeDriverTest, crash_after_the_commit_answers_from_the_checkpoint) {
  Prepare(ClaimRef(1));
  NodeState fresh_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver fresh{executor, api, fresh_state, files, report, {kNode, "computedomain-system", "pod-a2"}};
  api.calls.clear();
  Prepare(fresh, ClaimRef(1), 2);
  EXPECT_EQ(Error(1), "prepared");
  EXPECT_THAT(api.calls, IsEmpty());
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
  EXPECT_THAT(Error(), HasSubstr("IMEX channel device"));
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, acknowledged_maintenance_lets_nothing_be_prepared) {
  state.Transact([](Checkpoint& c) { return SetMaintenance(c, "upgrade-1"); }, [](const Status& s) { EXPECT_TRUE(s); });
  Prepare(ClaimRef(1));
  EXPECT_THAT(Error(), HasSubstr("under maintenance"));
  EXPECT_TRUE(Stored().claims.empty());
}

}  // namespace
}  // namespace cd::plugin
