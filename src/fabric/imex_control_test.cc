#include "src/fabric/imex_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cd::fabric {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kName[] = "6a130f54-1111-4222-8333-444444444444.32766";

TEST(SlotHostName, carries_a_hash_of_the_domain_and_the_index) {
  // The low 40 bits of the published FNV-1a results for "a" and "foobar".
  EXPECT_EQ(DomainHash("a"), "4c8601ec8c");
  EXPECT_EQ(DomainHash("foobar"), "71f73967e8");
  EXPECT_EQ(SlotHostName("foobar", 7), "imex-71f73967e8-0007");
  EXPECT_NE(SlotHostName("a", 7), SlotHostName("b", 7));
}

TEST(RenderNodes, is_one_name_per_slot) {
  const DesiredDomain domain{kName, "uid", 1, 3};
  EXPECT_EQ(RenderNodes(domain), SlotHostName(kName, 0) + "\n" + SlotHostName(kName, 1) + "\n" + SlotHostName(kName, 2) + "\n");
}

TEST(RenderConfig, binds_explicitly_and_stays_in_the_foreground) {
  const std::string text = RenderConfig({}, std::nullopt, "10.0.0.1", ImexPathsIn("/run/x"));
  EXPECT_EQ(text,
            "LOG_LEVEL=4\nLOG_FILE_NAME=\nSTATS_FILE_NAME=\nLOG_APPEND_TO_LOG=0\nLOG_USE_SYSLOG=0\nDAEMONIZE=0\n"
            "BIND_INTERFACE_IP=10.0.0.1\nSERVER_PORT=50000\nIMEX_NODE_CONFIG_FILE=/run/x/nodes.cfg\nIMEX_WAIT_FOR_QUORUM=NONE\n"
            "IMEX_NODE_DISCONNECTED_GRACE_TIME=-1\nIMEX_CMD_ENABLED=1\nIMEX_CMD_BIND_INTERFACE_IP=10.0.0.1\nIMEX_CMD_PORT=50005\n"
            "IMEX_CMD_UNIX_DOMAIN_PATH=/run/x/imex_ctl.sock\nIMEX_ENABLE_AUTH_ENCRYPTION=0\n");
}

TEST(RenderConfig, tls_uses_one_certificate_in_both_directions) {
  const std::string text = RenderConfig({}, DesiredTls{"/k", "/c", "/a"}, "10.0.0.1", ImexPathsIn("/run/x"));
  for (const char* line :
       {"IMEX_ENABLE_AUTH_ENCRYPTION=1\n", "IMEX_AUTH_ENCRYPTION_MODE=SSL_TLS\n", "IMEX_AUTH_SOURCE=FILE\n",
        "IMEX_SERVER_KEY=/k\n", "IMEX_SERVER_CERT=/c\n", "IMEX_CLIENT_CERT=/c\n", "IMEX_CLIENT_CERT_AUTH=/a\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(SlotAddresses, own_slot_is_own_address_and_empty_slots_reach_nobody) {
  const DesiredDomain domain{kName, "uid", 1, 4};
  EXPECT_THAT(SlotAddresses(domain, {{0, "10.0.0.1"}, {1, "10.9.9.9"}}, "10.0.0.2"),
              ElementsAre("10.0.0.1", "10.0.0.2", "127.0.0.2", "127.0.0.2"));
}

TEST(RenderHosts, keeps_foreign_lines_and_replaces_only_its_block) {
  const std::string kubelet = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.0.0.2\tdaemon-x\n";
  const std::string first = RenderHosts(kubelet, kName, {"10.0.0.1", "127.0.0.2"});
  EXPECT_TRUE(first.starts_with(kubelet));
  EXPECT_THAT(first, HasSubstr("10.0.0.1\t" + SlotHostName(kName, 0) + "\n127.0.0.2\t" + SlotHostName(kName, 1) + "\n"));
  EXPECT_EQ(RenderHosts(first, kName, {"10.0.0.1", "127.0.0.2"}), first);
  const std::string second = RenderHosts(first + "10.0.0.9\tlater\n", kName, {"10.0.0.1", "10.0.0.2"});
  EXPECT_THAT(second, Not(HasSubstr("127.0.0.2")));
  EXPECT_EQ(RemoveHostsBlock(second), kubelet + "10.0.0.9\tlater\n");
}

TEST(RenderHosts, adds_the_newline_a_foreign_last_line_lacks) {
  EXPECT_TRUE(RenderHosts("127.0.0.1 localhost", kName, {"10.0.0.1"}).starts_with("127.0.0.1 localhost\n#"));
}

TEST(RenderHosts, a_block_cut_short_by_a_crash_is_replaced) {
  const std::string whole = RenderHosts("127.0.0.1 localhost\n", kName, {"10.0.0.1", "10.0.0.2"});
  EXPECT_EQ(RenderHosts(whole.substr(0, whole.size() - 40), kName, {"10.0.0.1", "10.0.0.2"}), whole);
}

TEST(ParseState, takes_one_word_only) {
  EXPECT_EQ(ParseState("READY\n"), "READY");
  EXPECT_EQ(ParseState("WAITING_FOR_RECOVERY\n"), "WAITING_FOR_RECOVERY");
  for (const char* text : {"", "\n", "ready\n", "READY now\n", "Query Status returned error code: 14\n", "READY\nREADY\n"}) {
    const auto state = ParseState(text);
    ASSERT_FALSE(state) << text;
    EXPECT_EQ(state.error().code, ErrorCode::kUnavailable);
  }
}

constexpr char kReport[] =
    R"({"nodes":{"0":{"status":"READY","host":"10.0.0.1","connections":{"0":{"host":"10.0.0.1","status":"CONNECTED","changed":true},)"
    R"("1":{"host":"10.0.0.2","status":"CONNECTED","changed":true},"2":{"host":"127.0.0.2","status":"NEVER_CONNECTED","changed":true}},)"
    R"("changed":true,"version":"580.105.08","hostName":""},"1":{"status":"UNAVAILABLE","host":"10.0.0.2","connections":{"0":{"status":)"
    R"("INVALID"}},"version":""}},"timestamp":"5/22/2025 19:46:40.891","status":"DEGRADED"})";

TEST(ParseDomainReport, reads_this_nodes_view) {
  const auto report = ParseDomainReport(std::string(kReport) + "\n", 0);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(*report, (DomainReport{"580.105.08", {{0, "CONNECTED"}, {1, "CONNECTED"}, {2, "NEVER_CONNECTED"}}, "DEGRADED"}));
}

TEST(ParseDomainReport, an_unreachable_own_node_has_no_version) {
  const auto report = ParseDomainReport(kReport, 1);
  ASSERT_TRUE(report);
  EXPECT_EQ(*report, (DomainReport{"", {{0, "INVALID"}}, "DEGRADED"}));
}

TEST(ParseDomainReport, odd_connections_are_unknown_not_fatal) {
  const auto report = ParseDomainReport(
      R"({"status":7,"nodes":{"0":{"connections":{"1":{"status":5},"2":{"status":"lower"},"x":{"status":"CONNECTED"},"-3":{},"4":1}}}})",
      0);
  ASSERT_TRUE(report);
  EXPECT_EQ(*report, (DomainReport{"", {{1, "UNKNOWN"}, {2, "UNKNOWN"}}, "UNKNOWN"}));
}

TEST(ParseDomainReport, refuses_what_is_no_report) {
  for (const char* text : {"", "READY", "[]", "{}", R"({"nodes":[]})", R"({"nodes":{"5":{}}})", R"({"nodes":{"0":3}})"}) {
    EXPECT_FALSE(ParseDomainReport(text, 0)) << text;
  }
}

TEST(ExplainLastLine, stamps_that_differ_at_every_start_are_left_out) {
  EXPECT_EQ(ExplainLastLine("[Dec  1 2026 04:12:33] [ERROR] [tid 412] failed to bind"), "failed to bind");
  EXPECT_EQ(ExplainLastLine("failed to bind [::1]:50000"), "failed to bind [::1]:50000");
  EXPECT_EQ(ExplainLastLine("[ERROR]"), "[ERROR]");
  EXPECT_EQ(ExplainLastLine("[not closed"), "[not closed");
  EXPECT_EQ(ExplainLastLine(""), "");
}

TEST(ExplainLastLine, a_second_daemon_is_told_who_is_in_its_way) {
  EXPECT_THAT(
      ExplainLastLine("[ERROR] session: NV_ERR_IN_USE"),
      testing::AllOf(testing::StartsWith("session: NV_ERR_IN_USE; "), testing::HasSubstr("another nvidia-imex runs on this node"),
                     testing::HasSubstr("stop and disable it")));
  EXPECT_EQ(ExplainLastLine("NV_ERR_STATE_IN_USE"), "NV_ERR_STATE_IN_USE");
}

}  // namespace
}  // namespace cd::fabric
