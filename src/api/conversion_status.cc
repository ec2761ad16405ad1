#include "src/api/conversion_status.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "src/base/json_text.h"

namespace cd::api {

using nlohmann::json;

namespace {

constexpr char kCarried[] = "v1beta2";

bool IsTrue(const json& conditions, const char* type) {
  return std::any_of(conditions.begin(), conditions.end(), [&](const json& condition) {
    return TextOf(condition, "type") == type && TextOf(condition, "status") == "True";
  });
}

std::int64_t NumberOf(const json& object, const char* name) {
  const json& value = MemberOf(object, name);
  return value.is_number_integer() ? value.get<std::int64_t>() : 0;
}

// As that API documents it: numNodes only says how many ready nodes the whole needs to be ready.
const char* WholeState(const json& status, const json& spec) {
  const bool enough = NumberOf(MemberOf(status, "nodeSummary"), "ready") >= NumberOf(spec, "numNodes");
  return enough && IsTrue(ArrayOf(status, "conditions"), "Ready") ? "Ready" : "NotReady";
}

json NodeOf(const json& member) {
  json node = json::object();
  node["name"] = TextOf(member, "node");
  node["cliqueID"] = TextOf(member, "cliqueID");
  node["ipAddress"] = TextOf(member, "address");
  node["index"] = NumberOf(member, "index");
  const json& ready = MemberOf(member, "ready");
  node["status"] = ready.is_boolean() && ready.get<bool>() ? "Ready" : "NotReady";
  return node;
}

json MemberOfNode(const json& node) {
  json member = json::object();
  member["node"] = TextOf(node, "name");
  member["cliqueID"] = TextOf(node, "cliqueID");
  member["address"] = TextOf(node, "ipAddress");
  member["index"] = NumberOf(node, "index");
  member["ready"] = TextOf(node, "status") == "Ready";
  return member;
}

}  // namespace

void StatusDown(json& object) {
  const auto it = object.find("status");
  if (it == object.end() || !it->is_object()) return;
  json status = json::object();
  status["status"] = WholeState(*it, MemberOf(object, "spec"));
  json& nodes = status["nodes"] = json::array();
  for (const json& member : ArrayOf(*it, "members")) nodes.push_back(NodeOf(member));
  status[kCarried] = std::move(*it);
  *it = std::move(status);
}

void StatusUp(json& object) {
  const auto it = object.find("status");
  if (it == object.end() || !it->is_object()) return;
  if (const auto carried = it->find(kCarried); carried != it->end() && carried->is_object()) {
    json status = std::move(*carried);
    *it = std::move(status);
    return;
  }
  json members = json::array();
  std::int64_t ready = 0;
  for (const json& node : ArrayOf(*it, "nodes")) {
    if (TextOf(node, "name").empty()) continue;
    members.push_back(MemberOfNode(node));
    ready += TextOf(node, "status") == "Ready" ? 1 : 0;
  }
  json status = json::object();
  status["nodeSummary"]["total"] = members.size();
  status["nodeSummary"]["ready"] = ready;
  status["members"] = std::move(members);
  *it = std::move(status);
}

}  // namespace cd::api
