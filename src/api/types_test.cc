// Round trips of our own types, and that what a server may leave out or spoil is handled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/api/compute_domain.h"
#include "src/api/imex_node.h"

namespace cd::api {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

TEST(ImexDomainTest, encoded_domain_decodes_to_itself) {
  ImexDomain domain;
  domain.meta.name = "c.1";
  domain.clique_id = "c.1";
  domain.node_slots = 24;
  domain.imex_config.log_level = 3;
  domain.members = {{0, "node-1", "10.0.0.1", "boot"}, {3, "node-2", "", "", true}};
  domain.channels = {{7, {"team", "red", "u-1"}, LeaseState::kDraining, true}};
  domain.next_channel = 8;
  domain.refusals = {{"node-3", "u-2", "NoSlot", "why"}};
  const auto decoded = DecodeImexDomain(EncodeImexDomain(domain));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->clique_id, domain.clique_id);
  EXPECT_EQ(decoded->node_slots, domain.node_slots);
  EXPECT_EQ(decoded->imex_config, domain.imex_config);
  EXPECT_EQ(decoded->members, domain.members);
  EXPECT_EQ(decoded->channels, domain.channels);
  EXPECT_EQ(decoded->next_channel, domain.next_channel);
  EXPECT_EQ(decoded->refusals, domain.refusals);
}

TEST(ImexDomainTest, exclusive_domain_keeps_its_compute_domain) {
  ImexDomain domain;
  domain.meta.name = "x";
  domain.mode = DomainMode::kExclusive;
  domain.compute_domain = ObjectRef{"team", "red", "u-1"};
  const auto decoded = DecodeImexDomain(EncodeImexDomain(domain));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->mode, DomainMode::kExclusive);
  EXPECT_EQ(decoded->compute_domain, domain.compute_domain);
}

TEST(ImexDomainTest, unknown_lease_state_is_an_error_not_active) {
  json object = {{"metadata", {{"name", "c.1"}}}, {"spec", {{"channels", {{{"channel", 1}, {"state", "Gone"}}}}}}};
  const auto decoded = DecodeImexDomain(object);
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, AllOf(HasSubstr("spec.channels[0].state"), HasSubstr("\"Gone\""), HasSubstr("Draining")));
}

TEST(ImexNodeTest, encoded_node_and_status_decode_to_themselves) {
  ImexNode node;
  node.meta.name = "node-1";
  node.domain = DomainAssignment{"c.1", "u", 4};
  node.maintenance = "token";
  node.refusals = {{"", "u-2", "UnknownComputeDomain", "why"}};
  node.status.boot_id = "boot";
  node.status.driver_version = "580";
  node.status.fabric = FabricState::kDegraded;
  node.status.clique_ids = {"c.1"};
  node.status.fabric_message = "link down";
  node.status.daemon = {"10.0.0.1", "i-1", "u", 4, DaemonState::kNotReady, {0, 2}, "c.1", "why"};
  node.status.channels = {{"u", 7, "u-1"}};
  node.status.maintenance_acknowledged = "token";
  node.status.lost_prepares = {{"claim-1", "2026-11-30T21:00:01.000000Z"}};
  node.status.plugin_registered = "2026-11-30T21:00:00.000000Z";
  json object = EncodeImexNode(node);
  object["status"] = EncodeImexNodeStatus(node.status);
  const auto decoded = DecodeImexNode(object);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->domain, node.domain);
  EXPECT_EQ(decoded->maintenance, node.maintenance);
  EXPECT_EQ(decoded->refusals, node.refusals);
  EXPECT_EQ(decoded->status, node.status);
  EXPECT_TRUE(decoded->reported);
}

TEST(ImexNodeTest, index_beyond_32_bits_is_an_error_not_another_index) {
  for (const char* number : {"4294967297", "18446744073709551615", "1.5"}) {
    const json status = {{"daemon", {{"connected", json::array({json::parse(number)})}}}};
    const auto decoded = DecodeImexNode({{"metadata", {{"name", "node-1"}}}, {"status", status}});
    ASSERT_FALSE(decoded) << number;
    EXPECT_THAT(decoded.error().message, HasSubstr("status.daemon.connected"));
  }
}

TEST(ImexNodeTest, node_without_status_has_not_reported) {
  const auto decoded = DecodeImexNode({{"metadata", {{"name", "node-1"}}}, {"spec", json::object()}});
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_FALSE(decoded->reported);
  EXPECT_EQ(decoded->status.daemon.index, -1);
}

TEST(ComputeDomainTest, minimal_spec_gets_the_defaults) {
  const auto cd = DecodeComputeDomain({{"metadata", {{"name", "red"}, {"namespace", "team"}, {"uid", "u"}}},
                                       {"spec", {{"channel", {{"resourceClaimTemplate", {{"name", "red-channel"}}}}}}}});
  ASSERT_TRUE(cd) << cd.error().message;
  EXPECT_EQ(cd->claim_template_name, "red-channel");
  EXPECT_EQ(cd->isolation_mode, IsolationMode::kChannel);
  EXPECT_EQ(cd->fabric_policy, FabricPolicy::kRequired);
  EXPECT_FALSE(cd->gating);
  EXPECT_FALSE(cd->imex);
}

TEST(ComputeDomainTest, every_field_is_read) {
  const auto cd = DecodeComputeDomain(
      {{"metadata", {{"name", "red"}, {"namespace", "team"}}},
       {"spec",
        {{"channel", {{"resourceClaimTemplate", {{"name", "t"}}}, {"allocationMode", "All"}}},
         {"isolationMode", "Domain"},
         {"partitionPolicy", "Single"},
         {"fabricPolicy", "Optional"},
         {"gating", {{"minNodes", 4}, {"settleSeconds", 1}, {"timeoutSeconds", 60}, {"onTimeout", "Release"}}},
         {"imex", {{"waitForQuorum", "FULL"}, {"nodeDisconnectedGraceSeconds", 9}, {"logLevel", 2}}}}}});
  ASSERT_TRUE(cd) << cd.error().message;
  EXPECT_EQ(cd->allocation_mode, AllocationMode::kAll);
  EXPECT_EQ(cd->isolation_mode, IsolationMode::kDomain);
  EXPECT_EQ(cd->partition_policy, PartitionPolicy::kSingle);
  EXPECT_EQ(cd->fabric_policy, FabricPolicy::kOptional);
  EXPECT_EQ(cd->gating, (Gating{4, 1, 60, OnTimeout::kRelease}));
  EXPECT_EQ(cd->imex, (ImexConfig{"FULL", 9, 2}));
}

TEST(ComputeDomainTest, encoded_status_decodes_to_itself) {
  ComputeDomainStatus status;
  status.observed_generation = 2;
  status.conditions = {{"Ready", "True", "AllReady", "m", 2, "2026-11-30T18:00:00Z"}};
  status.total_nodes = 2;
  status.ready_nodes = 1;
  status.partitions = {{"c.1", "c.1", 7, 2, 1}};
  status.members = {{"node-1", "c.1", "10.0.0.1", 4, true}};
  const auto cd = DecodeComputeDomain(
      {{"metadata", {{"name", "red"}, {"namespace", "team"}}}, {"status", EncodeComputeDomainStatus(status)}});
  ASSERT_TRUE(cd) << cd.error().message;
  EXPECT_EQ(cd->status, status);
}

TEST(ImexDomainTest, name_tells_the_clique_and_the_owner) {
  const std::string clique = "3f0e6c1a-0000-4000-8000-000000000001.32766";
  const std::string owner = "0c5b2b1e-7c3c-4a39-9f0f-3a7f6a0f2d11";
  EXPECT_EQ(DomainName({clique, ""}), clique);
  EXPECT_EQ(DomainName({clique, owner}), owner + "." + clique);
  for (const std::string& uid : {std::string(), owner})
    EXPECT_EQ(IdentityOf(DomainName({clique, uid})), (DomainIdentity{clique, uid}));
}

}  // namespace
}  // namespace cd::api
