// Prepare on nodes without fabric, of pods that gating holds, and in exclusive IMEX domains.
#include <gmock/gmock.h>

#include "src/plugin/node_driver_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

// ---- exclusive IMEX domains

// Red alone has the node's IMEX domain, with all channels.
class ExclusiveDomainTest : public NodeDriverTest {
 protected:
  ExclusiveDomainTest() {
    api::ImexDomain domain = DomainObject({Lease(1, kRedUid)});
    domain.mode = api::DomainMode::kExclusive;
    domain.compute_domain = api::ObjectRef{"red-ns", "red", kRedUid};
    domain.allocation_mode = api::AllocationMode::kAll;
    nlohmann::json object = api::EncodeImexDomain(domain);
    object["metadata"]["uid"] = kDomainUid;
    api.Put(api::kImexDomains, std::move(object));
    view.domain = std::make_shared<api::ImexDomain>(domain);
    driver.SetView(std::make_shared<NodeView>(view));
    Claim("32", "All");
  }
  void Claim(const std::string& slots, const std::string& mode) {
    nlohmann::json claim = ClaimObject(ClaimRef(1), kRedUid);
    claim["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"] = {{"slots", slots}};
    claim["status"]["allocation"]["devices"]["config"][0]["opaque"]["parameters"]["allocationMode"] = mode;
    api.Put(api::kResourceClaims, std::move(claim));
  }
};

TEST_F(ExclusiveDomainTest, claim_for_the_whole_node_gets_every_channel) {
  Prepare(ClaimRef(1));
  ASSERT_EQ(Error(), "prepared");
  EXPECT_EQ(nlohmann::json::parse(Slurp(CdiPath(1)))["devices"][0]["containerEdits"]["deviceNodes"].size(), 4u);
  EXPECT_TRUE(Stored().claims.at(ClaimUid(1)).grant->all_channels);
}

TEST_F(ExclusiveDomainTest, claim_for_a_part_of_the_node_is_refused_by_number) {
  Claim("31", "All");
  Prepare(ClaimRef(1));
  EXPECT_THAT(Error(), AllOf(HasSubstr("isolationMode Domain"), HasSubstr("has 31")));
  ExpectNothingWritten();
}

TEST_F(ExclusiveDomainTest, claim_for_one_channel_of_a_domain_that_gives_all_is_refused_naming_both) {
  Claim("32", "Single");
  Prepare(ClaimRef(1));
  EXPECT_THAT(Error(), AllOf(HasSubstr("allocationMode: Single"), HasSubstr("allocationMode All")));
  ExpectNothingWritten();
}

TEST_F(ExclusiveDomainTest, plain_devices_get_the_channels_once) {
  nlohmann::json claim = *api.Find(api::kResourceClaims, {"red-ns", "claim-1"});
  nlohmann::json& results = claim["status"]["allocation"]["devices"]["results"];
  results[0].erase("consumedCapacity");
  for (int i = 1; i < 32; ++i) {
    results.push_back(results[0]);
    results.back()["device"] = "channel-" + std::to_string(i);
  }
  api.Put(api::kResourceClaims, std::move(claim));
  Prepare(ClaimRef(1));
  ASSERT_EQ(Error(), "prepared");
  ASSERT_EQ(results.size(), 32u);
  ASSERT_EQ(this->results[0]->size(), 32u);
  std::size_t told = 0;
  for (const PreparedDevice& device : *this->results[0]) told += device.cdi_ids.size();
  EXPECT_EQ(told, 1u) << "one CDI device for the request";
}

TEST_F(NodeDriverTest, node_moved_before_the_channel_was_announced_goes_back_to_the_lease) {
  report.answering = false;
  Prepare(ClaimRef(1));
  ASSERT_EQ(report.held.size(), 1u);
  report.held[0](Fail(ErrorCode::kConflict, "moved"));
  executor.RunPosted();
  EXPECT_TRUE(results.empty()) << "it may be given a channel where the node is now";
  EXPECT_TRUE(Stored().claims.empty());
  EXPECT_EQ(report.asked.size(), 1u) << "the view still says what is known to be over";

  // The node comes back into the domain, by way of none.
  report.answering = true;
  NodeView none = view;
  auto unassigned = NodeObject();
  unassigned.domain.reset();
  none.imex_node = std::make_shared<api::ImexNode>(unassigned);
  driver.SetView(std::make_shared<NodeView>(none));
  driver.SetView(std::make_shared<NodeView>(view));
  executor.RunPosted();
  EXPECT_TRUE(results.empty()) << "the first announcement is being withdrawn";
  state.Transact(
      [](Checkpoint& checkpoint) -> Status {
        checkpoint.withdrawing.clear();
        return {};
      },
      [](const Status&) {});
  driver.CheckpointChanged();
  executor.RunPosted();
  EXPECT_EQ(Error(), "prepared");
}

}  // namespace
}  // namespace cd::plugin
