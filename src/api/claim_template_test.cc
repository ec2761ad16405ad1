#include "src/api/claim_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/api/resource_claim.h"

namespace cd::api {
namespace {

using nlohmann::json;

constexpr char kUid[] = "0c5b2b1e-7c3c-4a39-9f0f-3a7f6a0f2d11";

ComputeDomain Red() {
  ComputeDomain cd;
  cd.meta.ns = "team";
  cd.meta.name = "red";
  cd.meta.uid = kUid;
  cd.meta.labels = {{"queue", "gold"}, {kComputeDomainLabel, "forged"}};
  cd.claim_template_name = "red-channel";
  return cd;
}

TEST(ClaimTemplateTest, asks_for_one_channel_of_a_node_with_fabric) {
  const json t = EncodeClaimTemplate(Red());
  const json& request = t.at("/spec/spec/devices/requests/0"_json_pointer);
  EXPECT_EQ(request["name"], "channel");
  EXPECT_EQ(request.at("/exactly/deviceClassName"_json_pointer), kChannelDeviceClass);
  EXPECT_EQ(request.at("/exactly/count"_json_pointer), 1);
  EXPECT_EQ(request.at("/exactly/selectors/0/cel/expression"_json_pointer),
            "has(device.attributes[\"compute-domain.nvidia.com\"].fabric) && "
            "device.attributes[\"compute-domain.nvidia.com\"].fabric");
}

TEST(ClaimTemplateTest, optional_fabric_selects_nothing) {
  ComputeDomain cd = Red();
  cd.fabric_policy = FabricPolicy::kOptional;
  EXPECT_FALSE(EncodeClaimTemplate(cd).contains("/spec/spec/devices/requests/0/exactly/selectors"_json_pointer));
}

TEST(ClaimTemplateTest, config_passes_the_strict_decoder) {
  const json t = EncodeClaimTemplate(Red());
  const auto config = DecodeOpaqueConfig(t.at("/spec/spec/devices/config/0/opaque/parameters"_json_pointer));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(std::get<ChannelConfig>(*config).domain_id, kUid);
}

TEST(ClaimTemplateTest, claims_get_the_labels_of_the_domain_and_ours_win) {
  const json labels = EncodeClaimTemplate(Red()).at("/spec/metadata/labels"_json_pointer);
  EXPECT_EQ(labels["queue"], "gold");
  EXPECT_EQ(labels[kComputeDomainLabel], kUid);
  EXPECT_EQ(labels[kComputeDomainTargetLabel], "Workload");
}

TEST(ClaimTemplateTest, template_is_owned_by_the_domain) {
  const json owner = EncodeClaimTemplate(Red()).at("/metadata/ownerReferences/0"_json_pointer);
  EXPECT_EQ(owner["uid"], kUid);
  EXPECT_EQ(owner["apiVersion"], "resource.nvidia.com/v1beta2");
}

TEST(ClaimTemplateTest, whole_node_is_asked_for_by_all_its_slots_or_all_its_devices) {
  ComputeDomain cd = Red();
  const auto exactly = "/spec/spec/devices/requests/0/exactly"_json_pointer;
  EXPECT_FALSE(EncodeClaimTemplate(cd).at(exactly).contains("capacity")) << "isolationMode Channel takes one slot";
  cd.isolation_mode = IsolationMode::kDomain;
  const json shared = EncodeClaimTemplate(cd, {32, false});
  EXPECT_EQ(shared.at(exactly).at("capacity"), json({{"requests", {{"slots", "32"}}}}));
  EXPECT_FALSE(DroppedCapacity(shared));
  const json plain = EncodeClaimTemplate(cd, {32, true});
  EXPECT_EQ(plain.at(exactly).at("allocationMode"), "All");
  EXPECT_FALSE(plain.at(exactly).contains("count"));
  EXPECT_FALSE(DroppedCapacity(plain));
}

TEST(ClaimTemplateTest, server_that_knows_no_capacity_is_seen_by_what_it_stores) {
  ComputeDomain cd = Red();
  cd.isolation_mode = IsolationMode::kDomain;
  json stored = EncodeClaimTemplate(cd);
  stored.at("/spec/spec/devices/requests/0/exactly"_json_pointer).erase("capacity");
  EXPECT_TRUE(DroppedCapacity(stored));
}

}  // namespace
}  // namespace cd::api
