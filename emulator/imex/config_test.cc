#include "emulator/imex/config.h"

#include <gtest/gtest.h>

#include "emulator/imex/node_map.h"

namespace emu::imex {
namespace {

TEST(ImexConfig, empty_file_means_the_shipped_defaults) {
  const Config config = ParseConfig("")->config;
  EXPECT_EQ(config.log_level, 4);
  EXPECT_EQ(config.log_file, "/var/log/nvidia-imex.log");
  EXPECT_TRUE(config.log_append);
  EXPECT_TRUE(config.daemonize);
  EXPECT_EQ(config.server_port, 50000);
  EXPECT_EQ(config.cmd_port, 50005);
  EXPECT_EQ(config.node_file, "/etc/nvidia-imex/nodes_config.cfg");
  EXPECT_EQ(config.quorum, Quorum::kRecovery);
  EXPECT_EQ(config.grace_seconds, -1);
  EXPECT_FALSE(config.auth_enabled);
}

TEST(ImexConfig, keys_are_read_around_comments_and_blanks) {
  const auto parsed = ParseConfig("# comment\n\n SERVER_PORT = 51000 \r\nIMEX_WAIT_FOR_QUORUM=NONE\nLOG_FILE_NAME=\n");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->config.server_port, 51000);
  EXPECT_EQ(parsed->config.quorum, Quorum::kNone);
  EXPECT_EQ(parsed->config.log_file, "");
  EXPECT_TRUE(parsed->warnings.empty());
}

TEST(ImexConfig, empty_command_port_leaves_the_unix_socket) {
  EXPECT_EQ(ParseConfig("IMEX_CMD_PORT=\n")->config.cmd_port, std::nullopt);
}

TEST(ImexConfig, unknown_key_is_a_warning) {
  EXPECT_EQ(ParseConfig("\nNEW_KEY=1\n")->warnings, std::vector<std::string>{"line 2: unknown key NEW_KEY"});
}

TEST(ImexConfig, bad_value_names_line_key_and_value) {
  const auto parsed = ParseConfig("\nSERVER_PORT=70000\n");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message, "line 2: invalid value \"70000\" of SERVER_PORT");
  for (const char* text : {"DAEMONIZE=yes", "LOG_LEVEL=5", "IMEX_WAIT_FOR_QUORUM=SOME", "no equals sign",
                           "IMEX_NODE_DISCONNECTED_GRACE_TIME=-2", "IMEX_CMD_PORT=x"}) {
    EXPECT_FALSE(ParseConfig(text)) << text;
  }
}

TEST(ImexConfig, authentication_never_starts_here) {
  Config config;
  EXPECT_TRUE(CheckConfig(config));
  config.auth_enabled = true;
  EXPECT_NE(CheckConfig(config).error().message.find("IMEX_AUTH_SOURCE"), std::string::npos);
  config.auth_source = "FILE";
  EXPECT_NE(CheckConfig(config).error().message.find("IMEX_ENABLE_AUTH_ENCRYPTION=0"), std::string::npos);
  config.auth_mode = "";
  EXPECT_NE(CheckConfig(config).error().message.find("IMEX_AUTH_ENCRYPTION_MODE"), std::string::npos);
}

TEST(NodeMapText, line_order_gives_ids_and_comments_do_not_count) {
  EXPECT_EQ(ParseNodeMap("# rack 1\n10.0.0.1\n\n  host-2 \r\n").entries, (std::vector<std::string>{"10.0.0.1", "host-2"}));
}

TEST(NodeMapText, hash_depends_on_order_and_boundaries) {
  const std::string hash = ParseNodeMap("a\nb\n").Hash();
  EXPECT_EQ(hash, ParseNodeMap("a\nb").Hash());
  EXPECT_NE(hash, ParseNodeMap("b\na\n").Hash());
  EXPECT_NE(hash, ParseNodeMap("ab\n").Hash());
  EXPECT_NE(hash, ParseNodeMap("a\nb\nc\n").Hash());
}

std::vector<std::string> FakeResolve(const std::string& host) {
  if (host == "me") return {"fd00::1", "10.0.0.2"};
  if (host == "unknown") return {};
  return {host};
}

TEST(OwnEntrySearch, first_entry_with_an_own_address_wins) {
  const NodeMap map{{"10.0.0.1", "unknown", "me", "10.0.0.2"}};
  const auto own = FindOwnEntry(map, {"127.0.0.1", "10.0.0.2"}, FakeResolve);
  ASSERT_TRUE(own);
  EXPECT_EQ(own->id, 2);
  EXPECT_EQ(own->ip, "10.0.0.2");
}

TEST(OwnEntrySearch, none_without_an_own_address) {
  EXPECT_FALSE(FindOwnEntry(NodeMap{{"10.0.0.1", "unknown"}}, {"10.0.0.2"}, FakeResolve));
}

}  // namespace
}  // namespace emu::imex
