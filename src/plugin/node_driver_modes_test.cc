// Prepare on nodes without fabric, and of pods that gating holds.
#include <gmock/gmock.h>

#include "src/plugin/node_driver_fixture.h"

namespace cd::plugin {
namespace {

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

}  // namespace
}  // namespace cd::plugin
