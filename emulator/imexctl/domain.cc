#include "emulator/imexctl/domain.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace emu::imexctl {
namespace {

using nlohmann::ordered_json;

std::string State(const Node& node) {
  return node.answer ? node.answer->state : "UNAVAILABLE";
}
std::string Version(const Node& node) {
  return node.answer ? node.answer->version : "";
}

std::string HostName(const Node& node, bool wanted) {
  if (!wanted) return "";
  return node.answer ? node.answer->host_name : "N/A";
}

// The letters of the text table.
std::string Letter(const std::string& connection) {
  static const std::map<std::string, std::string> kLetters = {
      {"CONNECTED", "C"},      {"NEVER_CONNECTED", "N"},    {"RECOVERING", "R"},    {"DISCONNECTED", "D"},
      {"AUTHENTICATING", "A"}, {"VERSION_MISMATCH", "!V!"}, {"MAP_MISMATCH", "!M!"}};
  const auto found = kLetters.find(connection);
  return found == kLetters.end() ? "I" : found->second;
}

constexpr const char* kLegend =
    "Connectivity Table Legend:\n"
    "I - Invalid - Node wasn't reachable, no connection status available\n"
    "N - Never Connected\n"
    "R - Recovering - Connection was lost, but clean up has not yet been triggered.\n"
    "D - Disconnected - Connection was lost, and clean up has been triggreed.\n"
    "A - Authenticating - If GSSAPI enabled, client has initiated mutual authentication.\n"
    "!V! - Version mismatch, communication disabled.\n"
    "!M! - Node map mismatch, communication disabled.\n"
    "C - Connected - Ready for operation\n";

std::string Padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string NodeLine(const Domain& domain, size_t id, bool host_names) {
  const Node& node = domain.nodes[id];
  // The local node is starred on both sides of its address.
  const bool local = static_cast<int>(id) == domain.local;
  std::string line = "Node #" + Padded(std::to_string(id), 4) + (local ? "* " : "- ") + Padded(node.host, 16);
  line += local ? "* - " : "- ";
  if (host_names) line += Padded(HostName(node, true), 24) + " - ";
  return line + Padded(State(node), 20) + " - Version: " + Version(node) + "\n";
}

}  // namespace

std::string Connection(const Domain& domain, size_t from, size_t to) {
  const auto& answer = domain.nodes[from].answer;
  if (!answer) return "INVALID";
  const auto found = answer->connections.find(static_cast<int>(to));
  return found == answer->connections.end() ? "INVALID" : found->second;
}

const char* DomainState(const Domain& domain) {
  bool all = true;
  bool any = false;
  for (size_t from = 0; from < domain.nodes.size(); ++from) {
    any = any || domain.nodes[from].answer;
    all = all && State(domain.nodes[from]) == "READY";
    for (size_t to = 0; to < domain.nodes.size(); ++to) all = all && Connection(domain, from, to) == "CONNECTED";
  }
  return !any ? "DOWN" : all ? "UP" : "DEGRADED";
}

std::string RenderJson(const Domain& domain, const Domain* previous, bool host_names, const std::string& timestamp) {
  ordered_json nodes = ordered_json::object();
  for (size_t id = 0; id < domain.nodes.size(); ++id) {
    const Node& node = domain.nodes[id];
    ordered_json connections = ordered_json::object();
    for (size_t to = 0; to < domain.nodes.size(); ++to) {
      const std::string word = Connection(domain, id, to);
      connections[std::to_string(to)] = {{"host", domain.nodes[to].host},
                                         {"status", word},
                                         {"changed", previous == nullptr || Connection(*previous, id, to) != word}};
    }
    nodes[std::to_string(id)] = {{"status", State(node)},
                                 {"host", node.host},
                                 {"connections", std::move(connections)},
                                 {"changed", previous == nullptr || previous->nodes[id] != node},
                                 {"version", Version(node)},
                                 {"hostName", HostName(node, host_names)}};
  }
  // The domain's state comes last: readers look for the last "status" of the text.
  ordered_json result;
  result["nodes"] = std::move(nodes);
  result["timestamp"] = timestamp;
  result["status"] = DomainState(domain);
  return result.dump() + "\n";
}

std::string RenderText(const Domain& domain, bool host_names, const std::string& timestamp) {
  std::string text = std::string(kLegend) + "\n" + timestamp + "\nNodes:\n";
  const size_t count = domain.nodes.size();
  for (size_t id = 0; id < count; ++id) text += NodeLine(domain, id, host_names);
  text += "\n Nodes From\\To  ";
  for (size_t to = 0; to < count; ++to) text += Padded(std::to_string(to), 4);
  text += "\n";
  for (size_t from = 0; from < count; ++from) {
    text += "       " + Padded(std::to_string(from), 9);
    for (size_t to = 0; to < count; ++to) text += Padded(Letter(Connection(domain, from, to)), 4);
    text += "\n";
  }
  return text + "\nDomain State: " + DomainState(domain) + "\n";
}

}  // namespace emu::imexctl
