// What users get wrong is refused by Prepare in words, and nothing is written.
#include <gmock/gmock.h>

#include "src/plugin/node_driver_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
        BadClaim{"replaced_claim", [](auto& c) { c["metadata"]["uid"] = ClaimUid(9); },
                 "was replaced by another of the same name"},
        BadClaim{"not_allocated", [](auto& c) { c["status"].erase("allocation"); }, "is not allocated"},
        BadClaim{"other_node", [](auto& c) { FirstResult(c)["pool"] = "node-9"; }, "is allocated on node \"node-9\""},
        BadClaim{"unknown_device", [](auto& c) { FirstResult(c)["device"] = "gpu-3"; }, "is not one this driver offers"},
        BadClaim{"device_of_another_driver", [](auto& c) { FirstResult(c)["driver"] = "gpu.nvidia.com"; },
                 "has no device of driver"},
        BadClaim{"both_devices",
                 [](auto& c) {
                   auto daemon = FirstResult(c);
                   daemon["device"] = "daemon";
                   c["status"]["allocation"]["devices"]["results"].push_back(daemon);
                 },
                 "asks for a channel and the daemon device; use one claim for each"},
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

TEST_F(NodeDriverTest, compute_domain_that_is_being_deleted_is_said_to_be) {
  SetDomain({});
  api.Put(
      api::kComputeDomains,
      {{"metadata", {{"name", "red"}, {"namespace", "red-ns"}, {"uid", kRedUid}, {"deletionTimestamp", "2026-11-30T18:00:00Z"}}},
       {"spec", {{"channel", {{"resourceClaimTemplate", {{"name", "t"}}}}}}}});
  Prepare(ClaimRef(1));
  executor.Advance(kExplainAfter);
  EXPECT_THAT(Error(), HasSubstr("ComputeDomain red-ns/red is being deleted; delete its pods and claims as well"));
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

}  // namespace
}  // namespace cd::plugin
