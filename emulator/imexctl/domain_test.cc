#include "emulator/imexctl/domain.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "emulator/imexctl/arguments.h"

namespace emu::imexctl {
namespace {

using nlohmann::json;

NodeAnswer Ready(std::map<int, std::string> connections) {
  return {"READY", "580.1", "host", std::move(connections)};
}

Domain TwoConnected() {
  const NodeAnswer answer = Ready({{0, "CONNECTED"}, {1, "CONNECTED"}});
  return {{{"10.0.0.1", answer}, {"10.0.0.2", answer}}, 0};
}

TEST(DomainStateRule, up_only_when_all_are_ready_and_connected) {
  Domain domain = TwoConnected();
  EXPECT_STREQ(DomainState(domain), "UP");
  domain.nodes[1].answer->connections[0] = "RECOVERING";
  EXPECT_STREQ(DomainState(domain), "DEGRADED");
  domain = TwoConnected();
  domain.nodes[1].answer->state = "INIT_GPU";
  EXPECT_STREQ(DomainState(domain), "DEGRADED");
  domain.nodes[1].answer.reset();
  EXPECT_STREQ(DomainState(domain), "DEGRADED");
  domain.nodes[0].answer.reset();
  EXPECT_STREQ(DomainState(domain), "DOWN");
}

TEST(DomainJson, unreachable_member_has_invalid_connections) {
  Domain domain = TwoConnected();
  domain.nodes[1].answer.reset();
  const json value = json::parse(RenderJson(domain, nullptr, true, "now"));
  const json& gone = value.at("nodes").at("1");
  EXPECT_EQ(gone.at("status"), "UNAVAILABLE");
  EXPECT_EQ(gone.at("version"), "");
  EXPECT_EQ(gone.at("hostName"), "N/A");
  EXPECT_EQ(gone.at("connections").at("0").at("status"), "INVALID");
  EXPECT_EQ(value.at("nodes").at("0").at("hostName"), "host");
}

TEST(DomainJson, state_of_the_domain_is_the_last_status) {
  const std::string text = RenderJson(TwoConnected(), nullptr, false, "now");
  EXPECT_EQ(text.substr(text.rfind("\"status\":")), "\"status\":\"UP\"}\n");
}

TEST(DomainJson, only_what_differs_is_marked_changed) {
  const Domain before = TwoConnected();
  Domain after = before;
  after.nodes[0].answer->connections[1] = "RECOVERING";
  const json nodes = json::parse(RenderJson(after, &before, false, "now")).at("nodes");
  EXPECT_EQ(nodes.at("0").at("changed"), true);
  EXPECT_EQ(nodes.at("0").at("connections").at("1").at("changed"), true);
  EXPECT_EQ(nodes.at("0").at("connections").at("0").at("changed"), false);
  EXPECT_EQ(nodes.at("1").at("changed"), false);
}

TEST(DomainText, letters_of_every_word) {
  Domain domain;
  domain.nodes.resize(8);
  domain.nodes[0].answer = Ready({{0, "CONNECTED"},
                                  {1, "NEVER_CONNECTED"},
                                  {2, "RECOVERING"},
                                  {3, "DISCONNECTED"},
                                  {4, "AUTHENTICATING"},
                                  {5, "VERSION_MISMATCH"},
                                  {6, "MAP_MISMATCH"}});
  const std::string text = RenderText(domain, false, "now");
  EXPECT_NE(text.find("C   N   R   D   A   !V! !M! I"), std::string::npos) << text;
}

Result<Arguments> Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "nvidia-imex-ctl");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ParseArguments(static_cast<int>(argv.size()), argv.data());
}

TEST(CtlArguments, targets_exclude_each_other) {
  EXPECT_TRUE(Parse({"-q"}));
  EXPECT_EQ(Parse({"-q", "-i", "10.0.0.1", "50005"})->tcp->port, 50005);
  EXPECT_EQ(*Parse({"-q", "--u=/run/x.sock"})->unix_path, "/run/x.sock");
  EXPECT_FALSE(Parse({"-q", "-c", "a", "-u", "b"}));
  EXPECT_FALSE(Parse({"-N", "-i", "10.0.0.1", "50005"}));
}

TEST(CtlArguments, exactly_one_action) {
  EXPECT_FALSE(Parse({}));
  EXPECT_FALSE(Parse({"-q", "-s"}));
  EXPECT_EQ(Parse({"-N", "-j", "-H"})->action, Action::kDomainOnce);
  EXPECT_EQ(Parse({"-s", "-t", "100"})->timeout_ms, 100);
  EXPECT_FALSE(Parse({"-s", "-t", "soon"}));
}

}  // namespace
}  // namespace emu::imexctl
