#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/api/resource_claim.h"

namespace cd::api {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kUid[] = "0c5b2b1e-7c3c-4a39-9f0f-3a7f6a0f2d11";

json Channel(json changes = json::object()) {
  json out = {{"apiVersion", "resource.nvidia.com/v1beta1"}, {"kind", "ComputeDomainChannelConfig"}, {"domainID", kUid}};
  out.merge_patch(changes);
  return out;
}

TEST(OpaqueConfigTest, channel_config_without_mode_is_single) {
  const auto config = DecodeOpaqueConfig(Channel());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(std::get<ChannelConfig>(*config), (ChannelConfig{kUid, AllocationMode::kSingle}));
}

TEST(OpaqueConfigTest, daemon_config_is_accepted) {
  const auto config = DecodeOpaqueConfig(Channel({{"kind", "ComputeDomainDaemonConfig"}}));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(std::get<DaemonConfig>(*config).domain_id, kUid);
}

TEST(OpaqueConfigTest, encoded_channel_config_decodes_to_itself) {
  const ChannelConfig all{kUid, AllocationMode::kAll};
  const auto config = DecodeOpaqueConfig(EncodeChannelConfig(all));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(std::get<ChannelConfig>(*config), all);
}

struct BadConfig {
  const char* name;
  json parameters;
  const char* field;
  const char* value;
  const char* remedy;
};

class BadConfigTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigTest, is_refused_naming_field_value_and_remedy) {
  const auto config = DecodeOpaqueConfig(GetParam().parameters);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(config.error().Retryable());
  EXPECT_THAT(config.error().message,
              AllOf(HasSubstr(GetParam().field), HasSubstr(GetParam().value), HasSubstr(GetParam().remedy)));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadConfigTest,
    testing::Values(
        BadConfig{"unknown_field", Channel({{"domainId", kUid}}), "\"domainId\": unknown field with value", kUid,
                  "correct or remove it"},
        BadConfig{"field_of_the_other_kind", Channel({{"kind", "ComputeDomainDaemonConfig"}, {"allocationMode", "All"}}),
                  "\"allocationMode\": unknown field", "\"All\"", "correct or remove it"},
        BadConfig{"wrong_case_of_mode", Channel({{"allocationMode", "all"}}), "allocationMode",
                  "\"all\" is unknown; use \"Single\" or \"All\"", "\"All\""},
        BadConfig{"mode_is_no_string", Channel({{"allocationMode", 3}}), "allocationMode", "3", "\"All\""},
        BadConfig{"domain_is_missing", Channel({{"domainID", nullptr}}), "domainID: missing;", "missing", "metadata.uid"},
        BadConfig{"domain_is_a_name", Channel({{"domainID", "red"}}), "domainID", "\"red\" is not a UID (a UUID in lower case)",
                  "metadata.uid"},
        BadConfig{"domain_is_a_path", Channel({{"domainID", "../../etc"}}), "domainID", "\"../../etc\"", "metadata.uid"},
        BadConfig{"domain_in_upper_case", Channel({{"domainID", "0C5B2B1E-7C3C-4A39-9F0F-3A7F6A0F2D11"}}), "domainID", "0C5B",
                  "lower case"},
        BadConfig{"domain_is_a_list", Channel({{"domainID", json::array({kUid})}}), "domainID", "is not a string",
                  "metadata.uid"},
        BadConfig{"wrong_version", Channel({{"apiVersion", "resource.nvidia.com/v1"}}), "apiVersion",
                  "\"resource.nvidia.com/v1\"", "resource.nvidia.com/v1beta1"},
        BadConfig{"version_is_missing", Channel({{"apiVersion", nullptr}}), "apiVersion", "missing",
                  "resource.nvidia.com/v1beta1"},
        BadConfig{"foreign_kind", Channel({{"kind", "GpuConfig"}}), "kind", "\"GpuConfig\" is unknown;",
                  "ComputeDomainChannelConfig"},
        BadConfig{"not_an_object", json::array({1}), "parameters", "[1] is not an object; give a", "ComputeDomainChannelConfig"},
        BadConfig{"nothing_at_all", json(nullptr), "parameters", "null", "ComputeDomainChannelConfig"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(OpaqueConfigTest, hostile_value_is_clipped_and_escaped) {
  const auto config = DecodeOpaqueConfig(Channel({{"domainID", std::string(10'000, 'x') + "\n\xff"}}));
  ASSERT_FALSE(config);
  EXPECT_LT(config.error().message.size(), 400U);
}

}  // namespace
}  // namespace cd::api
