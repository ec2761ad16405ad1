#include "src/api/references.h"

#include <array>

namespace cd::api {

using nlohmann::json;

namespace {

constexpr std::array kAllocationModes{EnumName<AllocationMode>{"Single", AllocationMode::kSingle},
                                      EnumName<AllocationMode>{"All", AllocationMode::kAll}};

}  // namespace

std::string ToString(AllocationMode mode) {
  return NameOf(mode, kAllocationModes);
}

AllocationMode ReadAllocationMode(JsonReader& parent) {
  return parent.Enum("allocationMode", kAllocationModes, AllocationMode::kSingle);
}

ObjectRef ReadRef(JsonReader r) {
  return {r.String("namespace"), r.String("name"), r.String("uid")};
}

json EncodeRef(const ObjectRef& ref) {
  return {{"namespace", ref.ns}, {"name", ref.name}, {"uid", ref.uid}};
}

std::vector<Refusal> ReadRefusals(JsonReader parent) {
  std::vector<Refusal> out;
  for (JsonReader& r : parent.Children("refusals")) {
    out.push_back({r.String("node"), r.String("computeDomainUID"), r.String("reason"), r.String("message")});
  }
  return out;
}

json EncodeRefusals(const std::vector<Refusal>& refusals) {
  json out = json::array();
  for (const Refusal& refusal : refusals) {
    json entry = {{"computeDomainUID", refusal.compute_domain_uid}, {"reason", refusal.reason}, {"message", refusal.message}};
    if (!refusal.node.empty()) entry["node"] = refusal.node;
    out.push_back(std::move(entry));
  }
  return out;
}

NodeChannel ReadNodeChannel(JsonReader r) {
  return {r.String("domainUID"), r.Int("channel"), r.String("computeDomainUID"), r.String("domain")};
}

json EncodeNodeChannel(const NodeChannel& channel) {
  json out{{"domainUID", channel.domain_uid}, {"channel", channel.channel}, {"computeDomainUID", channel.compute_domain_uid}};
  if (!channel.domain.empty()) out["domain"] = channel.domain;
  return out;
}

ImexConfig ReadImexConfig(JsonReader r) {
  return {r.String("waitForQuorum"), r.OptionalInt("nodeDisconnectedGraceSeconds"), r.OptionalInt("logLevel")};
}

json EncodeImexConfig(const ImexConfig& config) {
  json out = json::object();
  if (!config.wait_for_quorum.empty()) out["waitForQuorum"] = config.wait_for_quorum;
  if (config.node_disconnected_grace_seconds) out["nodeDisconnectedGraceSeconds"] = *config.node_disconnected_grace_seconds;
  if (config.log_level) out["logLevel"] = *config.log_level;
  return out;
}

}  // namespace cd::api
