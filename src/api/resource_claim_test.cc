#include "src/api/resource_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cd::api {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kRed[] = "0c5b2b1e-7c3c-4a39-9f0f-3a7f6a0f2d11";
constexpr char kBlue[] = "5f2a1c38-0f64-4c7e-8a6e-0d9b6a0f2d22";

json Config(const std::string& uid, const std::string& source, std::vector<std::string> requests = {}) {
  json out = {{"source", source},
              {"opaque",
               {{"driver", kDriverName},
                {"parameters",
                 {{"apiVersion", "resource.nvidia.com/v1beta1"}, {"kind", "ComputeDomainChannelConfig"}, {"domainID", uid}}}}}};
  if (!requests.empty()) out["requests"] = requests;
  return out;
}

json Device(const std::string& request, const std::string& device, const std::string& driver = kDriverName) {
  return {{"request", request}, {"driver", driver}, {"pool", "node-1"}, {"device", device}};
}

// Vectors, because json{x} is an array of one for g++ and x itself for clang.
json Claim(std::vector<json> results, std::vector<json> configs) {
  const json field{{"key", "metadata.name"}, {"operator", "In"}, {"values", {"node-1"}}};
  const json pod{{"resource", "pods"}, {"name", "p"}, {"uid", "pu"}};
  const json term{{"matchFields", json::array({field})}};
  return {{"apiVersion", "resource.k8s.io/v1"},
          {"kind", "ResourceClaim"},
          {"metadata", {{"name", "c"}, {"namespace", "team"}, {"uid", "u"}}},
          {"status",
           {{"allocation",
             {{"devices", {{"results", std::move(results)}, {"config", std::move(configs)}}},
              {"nodeSelector", {{"nodeSelectorTerms", json::array({term})}}}}},
            {"reservedFor", json::array({pod})}}}};
}

ResourceClaim Decoded(const json& object) {
  auto claim = DecodeResourceClaim(object);
  EXPECT_TRUE(claim) << claim.error().message;
  return claim.value_or(ResourceClaim{});
}

std::string DomainOf(const json& object) {
  const auto config = ChannelConfigOf(Decoded(object));
  if (!config) return "error: " + config.error().message;
  return *config ? (*config)->domain_id : "none";
}

TEST(ResourceClaimTest, allocated_claim_is_read) {
  json object = Claim({Device("channel", "channel-0")}, {Config(kRed, "FromClaim")});
  object["status"]["allocation"]["devices"]["results"][0]["shareID"] = "s-1";
  const ResourceClaim claim = Decoded(object);
  EXPECT_TRUE(claim.allocated);
  EXPECT_EQ(claim.node_name, "node-1");
  EXPECT_EQ(claim.PoolOfDriver(), "node-1");
  EXPECT_EQ(claim.results.at(0).share_id, "s-1");
  EXPECT_EQ(claim.reserved_for, (std::vector<ObjectRef>{{"team", "p", "pu"}}));
}

TEST(ResourceClaimTest, claim_without_status_is_not_allocated) {
  const ResourceClaim claim = Decoded({{"metadata", {{"name", "c"}, {"namespace", "team"}}}});
  EXPECT_FALSE(claim.allocated);
  EXPECT_EQ(DomainOf({{"metadata", {{"name", "c"}, {"namespace", "team"}}}}), "none");
}

TEST(ResourceClaimTest, allocation_with_share_id_and_capacity_needs_no_share_id) {
  EXPECT_EQ(DomainOf(Claim({Device("channel", "channel-0")}, {Config(kRed, "FromClaim")})), kRed);
}

TEST(ResourceClaimTest, config_of_claim_beats_config_of_class) {
  EXPECT_EQ(
      DomainOf(Claim({Device("channel", "channel-0")}, {Config(kRed, "FromClaim"), Config(kBlue, "FromClass", {"channel"})})),
      kRed);
}

TEST(ResourceClaimTest, config_that_names_the_request_beats_a_general_one) {
  EXPECT_EQ(
      DomainOf(Claim({Device("channel", "channel-0")}, {Config(kRed, "FromClaim", {"channel"}), Config(kBlue, "FromClaim")})),
      kRed);
}

TEST(ResourceClaimTest, config_for_the_parent_request_covers_its_alternatives) {
  EXPECT_EQ(DomainOf(Claim({Device("channel/first", "channel-0")}, {Config(kRed, "FromClaim", {"channel"})})), kRed);
}

TEST(ResourceClaimTest, config_of_another_request_does_not_count) {
  EXPECT_THAT(DomainOf(Claim({Device("channel", "channel-0")}, {Config(kRed, "FromClaim", {"gpu"})})),
              AllOf(HasSubstr("team/c"), HasSubstr("\"channel\""),
                    HasSubstr("so no ComputeDomain is named; use the ResourceClaimTemplate")));
}

TEST(ResourceClaimTest, foreign_devices_and_configs_are_ignored) {
  json foreign = Config(kBlue, "FromClaim");
  foreign["opaque"]["driver"] = "gpu.nvidia.com";
  foreign["opaque"]["parameters"] = {{"kind", "GpuConfig"}};
  EXPECT_EQ(DomainOf(Claim({Device("gpu", "gpu-0", "gpu.nvidia.com"), Device("channel", "channel-0")},
                           {foreign, Config(kRed, "FromClaim")})),
            kRed);
  EXPECT_EQ(DomainOf(Claim({Device("gpu", "channel-0", "gpu.nvidia.com")}, {foreign})), "none");
}

TEST(ResourceClaimTest, daemon_device_has_no_channel) {
  EXPECT_EQ(DomainOf(Claim({Device("daemon", "daemon")}, json::array())), "none");
}

TEST(ResourceClaimTest, two_domains_in_one_claim_are_refused) {
  EXPECT_THAT(DomainOf(Claim({Device("a", "channel-0"), Device("b", "channel-0")},
                             {Config(kRed, "FromClaim", {"a"}), Config(kBlue, "FromClaim", {"b"})})),
              AllOf(HasSubstr(kRed), HasSubstr(kBlue),
                    HasSubstr("of another request; a claim belongs to one ComputeDomain: make one claim for each")));
}

TEST(ResourceClaimTest, daemon_config_on_a_channel_is_refused) {
  json config = Config(kRed, "FromClaim");
  config["opaque"]["parameters"]["kind"] = "ComputeDomainDaemonConfig";
  EXPECT_THAT(DomainOf(Claim({Device("channel", "channel-0")}, {config})),
              HasSubstr("does not fit device channel-0; set it to \"ComputeDomainChannelConfig\""));
}

TEST(ResourceClaimTest, wrong_type_names_its_path) {
  json object = Claim({Device("channel", "channel-0")}, json::array());
  object["status"]["allocation"]["devices"]["results"][0]["pool"] = 7;
  const auto claim = DecodeResourceClaim(object);
  ASSERT_FALSE(claim);
  EXPECT_THAT(claim.error().message, AllOf(HasSubstr("status.allocation.devices.results[0].pool"), HasSubstr("7")));
}

TEST(ResourceClaimTest, slots_are_what_is_consumed_of_a_shared_device_and_one_for_each_plain_one) {
  const auto result = [](const char* driver, const char* device) {
    return json{{"request", "channel"}, {"driver", driver}, {"pool", "node-1"}, {"device", device}};
  };
  const auto slots = [](json results) {
    const json claim{{"metadata", {{"name", "c"}}},
                     {"status", {{"allocation", {{"devices", {{"results", std::move(results)}}}}}}}};
    return DecodeResourceClaim(claim)->ChannelSlots();
  };
  json shared = result(kDriverName, "channel-0");
  shared["consumedCapacity"] = {{"slots", "32"}};
  EXPECT_EQ(slots(json::array({shared})), 32);
  EXPECT_EQ(slots(json::array({result(kDriverName, "channel-0"), result(kDriverName, "channel-1")})), 2);
  EXPECT_EQ(slots(json::array({result(kDriverName, "daemon"), result("gpu.nvidia.com", "channel-0")})), 0);
  for (const char* quantity : {"", "many", "-3", "3k"}) {
    shared["consumedCapacity"] = {{"slots", quantity}};
    EXPECT_EQ(slots(json::array({shared})), 1) << "an unreadable quantity never counts for a whole node: " << quantity;
  }
}

}  // namespace
}  // namespace cd::api
