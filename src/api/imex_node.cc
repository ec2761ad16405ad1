#include "src/api/imex_node.h"

#include <algorithm>

#include "src/api/references.h"
#include "src/base/json_reader.h"

namespace cd::api {

using nlohmann::json;

namespace {

constexpr std::array kFabricStates{
    EnumName<FabricState>{"None", FabricState::kNone}, EnumName<FabricState>{"Forming", FabricState::kForming},
    EnumName<FabricState>{"Ready", FabricState::kReady}, EnumName<FabricState>{"Degraded", FabricState::kDegraded},
    EnumName<FabricState>{"Mixed", FabricState::kMixed}};
constexpr std::array kDaemonStates{
    EnumName<DaemonState>{"Absent", DaemonState::kAbsent}, EnumName<DaemonState>{"Starting", DaemonState::kStarting},
    EnumName<DaemonState>{"Ready", DaemonState::kReady}, EnumName<DaemonState>{"NotReady", DaemonState::kNotReady}};

NodeDaemon ReadDaemon(JsonReader r) {
  NodeDaemon daemon;
  daemon.address = r.String("address");
  daemon.instance = r.String("instance");
  daemon.domain = r.String("domain");
  daemon.domain_uid = r.String("domainUID");
  daemon.index = r.Int("index", -1);
  daemon.state = r.Enum("state", kDaemonStates, DaemonState::kAbsent);
  daemon.connected = r.Ints("connected");
  daemon.message = r.String("message");
  daemon.pod_uid = r.String("podUID");
  daemon.revision = r.String("revision");
  return daemon;
}

ImexNodeStatus ReadStatus(JsonReader r) {
  ImexNodeStatus status;
  status.boot_id = r.String("bootID");
  status.driver_version = r.String("driverVersion");
  JsonReader fabric = r.Child("fabric");
  status.fabric = fabric.Enum("state", kFabricStates, FabricState::kNone);
  status.clique_ids = fabric.Strings("cliqueIDs");
  status.fabric_message = fabric.String("message");
  status.daemon = ReadDaemon(r.Child("daemon"));
  for (JsonReader& channel : r.Children("channels")) status.channels.push_back(ReadNodeChannel(channel));
  for (JsonReader& c : r.Children("lostPrepares")) status.lost_prepares.push_back({c.String("claimUID"), c.String("time")});
  status.plugin_registered = r.String("pluginRegistered");
  status.maintenance_acknowledged = r.String("maintenanceAcknowledged");
  return status;
}

Exemption ReadExemption(JsonReader r) {
  return {ReadRef(r.Child("computeDomain")), r.Bool("released"), r.Strings("releasedClaims"), r.Bool("exclusive")};
}

json EncodeExemption(const Exemption& exemption) {
  json out{{"computeDomain", EncodeRef(exemption.compute_domain)}, {"released", exemption.released}};
  if (!exemption.released_claims.empty()) out["releasedClaims"] = exemption.released_claims;
  if (exemption.exclusive) out["exclusive"] = true;
  return out;
}

}  // namespace

bool Exemption::Releases(const std::string& claim_uid) const {
  return released || std::binary_search(released_claims.begin(), released_claims.end(), claim_uid);
}

std::string ToString(FabricState state) {
  return NameOf(state, kFabricStates);
}

bool IsElsewhere(FabricState fabric, const std::vector<std::string>& clique_ids, const std::string& clique_id) {
  if (clique_ids.size() == 1 && clique_ids.front() == clique_id) return false;
  return fabric == FabricState::kReady || fabric == FabricState::kNone || fabric == FabricState::kMixed;
}

namespace {

constexpr std::string_view kReplacement = "replace-daemon-pod-";

}  // namespace

std::string ReplacementToken(const std::string& pod_uid) {
  return std::string(kReplacement) + pod_uid;
}

std::string PodToReplace(const std::string& token) {
  return token.starts_with(kReplacement) ? token.substr(kReplacement.size()) : "";
}

bool UnderMaintenance(const ImexNode& node) {
  return !node.status.maintenance_acknowledged.empty() || (!node.maintenance.empty() && node.status.channels.empty());
}

bool NoFabric(const ImexNodeStatus& status) {
  return status.fabric == FabricState::kNone && !status.driver_version.empty();
}

Result<ImexNode> DecodeImexNode(const json& object) {
  auto meta = DecodeMeta(object);
  if (!meta) return Fail(meta.error());
  std::optional<Error> error;
  JsonReader root(&object, "", error);
  JsonReader spec = root.Child("spec");
  ImexNode node;
  node.meta = std::move(*meta);
  if (spec.Has("domain")) {
    JsonReader d = spec.Child("domain");
    node.domain = DomainAssignment{d.String("name"), d.String("uid"), d.Int("index")};
  }
  node.maintenance = spec.String("maintenance");
  node.refusals = ReadRefusals(spec);
  for (JsonReader& r : spec.Children("exemptions")) node.exemptions.push_back(ReadExemption(r));
  // A status without boot ID is the server's empty default, not a plugin's report.
  node.status = ReadStatus(root.Child("status"));
  node.reported = !node.status.boot_id.empty();
  if (error) return Fail(Annotate(*error, "IMEXNode " + node.meta.name));
  return node;
}

json EncodeImexNode(const ImexNode& node) {
  json spec = json::object();
  if (node.domain) spec["domain"] = {{"name", node.domain->name}, {"uid", node.domain->uid}, {"index", node.domain->index}};
  if (!node.maintenance.empty()) spec["maintenance"] = node.maintenance;
  if (!node.refusals.empty()) spec["refusals"] = EncodeRefusals(node.refusals);
  if (!node.exemptions.empty()) {
    json& exemptions = spec["exemptions"] = json::array();
    for (const Exemption& exemption : node.exemptions) exemptions.push_back(EncodeExemption(exemption));
  }
  return {{"apiVersion", kImexNodes.ApiVersion()},
          {"kind", kImexNodes.kind},
          {"metadata", EncodeMeta(node.meta)},
          {"spec", std::move(spec)}};
}

json EncodeImexNodeStatus(const ImexNodeStatus& status) {
  json channels = json::array();
  for (const NodeChannel& channel : status.channels) channels.push_back(EncodeNodeChannel(channel));
  json out = {
      {"bootID", status.boot_id},
      {"driverVersion", status.driver_version},
      {"fabric",
       {{"state", NameOf(status.fabric, kFabricStates)}, {"cliqueIDs", status.clique_ids}, {"message", status.fabric_message}}},
      {"daemon",
       {{"address", status.daemon.address},
        {"instance", status.daemon.instance},
        {"domainUID", status.daemon.domain_uid},
        {"index", status.daemon.index},
        {"state", NameOf(status.daemon.state, kDaemonStates)},
        {"connected", status.daemon.connected}}},
      {"channels", std::move(channels)},
  };
  if (!status.daemon.domain.empty()) out["daemon"]["domain"] = status.daemon.domain;
  if (!status.daemon.message.empty()) out["daemon"]["message"] = status.daemon.message;
  if (!status.daemon.pod_uid.empty()) out["daemon"]["podUID"] = status.daemon.pod_uid;
  if (!status.daemon.revision.empty()) out["daemon"]["revision"] = status.daemon.revision;
  for (const LostPrepare& lost : status.lost_prepares) {
    out["lostPrepares"].push_back({{"claimUID", lost.claim_uid}, {"time", lost.time}});
  }
  if (!status.plugin_registered.empty()) out["pluginRegistered"] = status.plugin_registered;
  if (!status.maintenance_acknowledged.empty()) out["maintenanceAcknowledged"] = status.maintenance_acknowledged;
  return out;
}

}  // namespace cd::api
