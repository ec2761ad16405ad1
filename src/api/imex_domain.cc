#include "src/api/imex_domain.h"

#include "src/api/json_reader.h"
#include "src/api/references.h"

namespace cd::api {

using nlohmann::json;

namespace {

constexpr std::array kModes{EnumName<DomainMode>{"Shared", DomainMode::kShared},
                            EnumName<DomainMode>{"Exclusive", DomainMode::kExclusive}};
constexpr std::array kLeaseStates{EnumName<LeaseState>{"Active", LeaseState::kActive},
                                  EnumName<LeaseState>{"Draining", LeaseState::kDraining}};

DomainMember ReadMember(JsonReader r) {
  return {r.Int("index"), r.String("node"), r.String("address"), r.String("bootID")};
}

ChannelLease ReadLease(JsonReader r) {
  ChannelLease lease;
  lease.channel = r.Int("channel");
  lease.compute_domain = ReadRef(r.Child("computeDomain"));
  lease.state = r.Enum("state", kLeaseStates, LeaseState::kActive);
  lease.released = r.Bool("released");
  return lease;
}

json EncodeLease(const ChannelLease& lease) {
  return {{"channel", lease.channel},
          {"computeDomain", EncodeRef(lease.compute_domain)},
          {"state", NameOf(lease.state, kLeaseStates)},
          {"released", lease.released}};
}

}  // namespace

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

Result<ImexDomain> DecodeImexDomain(const json& object) {
  auto meta = DecodeMeta(object);
  if (!meta) return Fail(meta.error());
  std::optional<Error> error;
  JsonReader spec = JsonReader(&object, "", error).Child("spec");
  ImexDomain domain;
  domain.meta = std::move(*meta);
  domain.clique_id = spec.String("cliqueID");
  domain.mode = spec.Enum("mode", kModes, DomainMode::kShared);
  if (spec.Has("computeDomain")) domain.compute_domain = ReadRef(spec.Child("computeDomain"));
  domain.node_slots = spec.Int("nodeSlots", kDefaultNodeSlots);
  domain.imex_config = ReadImexConfig(spec.Child("imexConfig"));
  for (JsonReader& r : spec.Children("members")) domain.members.push_back(ReadMember(r));
  for (JsonReader& r : spec.Children("channels")) domain.channels.push_back(ReadLease(r));
  domain.next_channel = spec.Int("nextChannel", 1);
  domain.refusals = ReadRefusals(spec);
  if (error) return Fail(Annotate(*error, "IMEXDomain " + domain.meta.name));
  return domain;
}

json EncodeImexDomain(const ImexDomain& domain) {
  json members = json::array();
  for (const DomainMember& m : domain.members) {
    members.push_back({{"index", m.index}, {"node", m.node}, {"address", m.address}, {"bootID", m.boot_id}});
  }
  json channels = json::array();
  for (const ChannelLease& lease : domain.channels) channels.push_back(EncodeLease(lease));
  json spec = {{"cliqueID", domain.clique_id},       {"mode", NameOf(domain.mode, kModes)},
               {"nodeSlots", domain.node_slots},     {"imexConfig", EncodeImexConfig(domain.imex_config)},
               {"members", std::move(members)},      {"channels", std::move(channels)},
               {"nextChannel", domain.next_channel}, {"refusals", EncodeRefusals(domain.refusals)}};
  if (domain.compute_domain) spec["computeDomain"] = EncodeRef(*domain.compute_domain);
  return {{"apiVersion", kImexDomains.ApiVersion()},
          {"kind", kImexDomains.kind},
          {"metadata", EncodeMeta(domain.meta)},
          {"spec", std::move(spec)}};
}

}  // namespace cd::api
