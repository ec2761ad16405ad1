#include "src/api/imex_domain.h"

#include <algorithm>

#include "src/api/references.h"
#include "src/base/json_reader.h"

namespace cd::api {

using nlohmann::json;

namespace {

constexpr std::array kModes{EnumName<DomainMode>{"Shared", DomainMode::kShared},
                            EnumName<DomainMode>{"Exclusive", DomainMode::kExclusive}};
constexpr std::array kLeaseStates{EnumName<LeaseState>{"Active", LeaseState::kActive},
                                  EnumName<LeaseState>{"Draining", LeaseState::kDraining}};

DomainMember ReadMember(JsonReader r) {
  return {r.Int("index"), r.String("node"), r.String("address"), r.String("bootID"), r.Bool("unseen")};
}

ChannelLease ReadLease(JsonReader r) {
  ChannelLease lease;
  lease.channel = r.Int("channel");
  lease.compute_domain = ReadRef(r.Child("computeDomain"));
  lease.state = r.Enum("state", kLeaseStates, LeaseState::kActive);
  lease.released = r.Bool("released");
  lease.released_claims = r.Strings("releasedClaims");
  return lease;
}

json EncodeLease(const ChannelLease& lease) {
  json out = {{"channel", lease.channel},
              {"computeDomain", EncodeRef(lease.compute_domain)},
              {"state", NameOf(lease.state, kLeaseStates)},
              {"released", lease.released}};
  if (!lease.released_claims.empty()) out["releasedClaims"] = lease.released_claims;
  return out;
}

template <typename T, typename Predicate>
const T* Find(const std::vector<T>& items, Predicate predicate) {
  const auto it = std::find_if(items.begin(), items.end(), predicate);
  return it == items.end() ? nullptr : &*it;
}

}  // namespace

bool ChannelLease::Releases(const std::string& claim_uid) const {
  return released || std::binary_search(released_claims.begin(), released_claims.end(), claim_uid);
}

const DomainMember* FindMember(const ImexDomain& domain, const std::string& node) {
  return Find(domain.members, [&](const DomainMember& m) { return m.node == node; });
}

const ChannelLease* FindLease(const ImexDomain& domain, const std::string& compute_domain_uid) {
  return Find(domain.channels, [&](const ChannelLease& lease) { return lease.compute_domain.uid == compute_domain_uid; });
}

const Refusal* FindRefusal(const std::vector<Refusal>& refusals, const std::string& node, const std::string& compute_domain_uid) {
  return Find(refusals,
              [&](const Refusal& r) { return r.compute_domain_uid == compute_domain_uid && (r.node.empty() || r.node == node); });
}

std::string DomainName(const DomainIdentity& identity) {
  return identity.owner_uid.empty() ? identity.clique_id : identity.owner_uid + "." + identity.clique_id;
}

// A clique's name is one UUID and a number; an exclusive domain's has the UUID of its owner before that.
DomainIdentity IdentityOf(const std::string& domain_name) {
  const std::size_t dot = domain_name.find('.');
  const bool owned = dot != std::string::npos && domain_name.find('.', dot + 1) != std::string::npos;
  if (!owned) return {domain_name, ""};
  return {domain_name.substr(dot + 1), domain_name.substr(0, dot)};
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
  domain.allocation_mode = ReadAllocationMode(spec);
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
    if (m.unseen) members.back()["unseen"] = true;
  }
  json channels = json::array();
  for (const ChannelLease& lease : domain.channels) channels.push_back(EncodeLease(lease));
  json spec = {{"cliqueID", domain.clique_id},       {"mode", NameOf(domain.mode, kModes)},
               {"nodeSlots", domain.node_slots},     {"imexConfig", EncodeImexConfig(domain.imex_config)},
               {"members", std::move(members)},      {"channels", std::move(channels)},
               {"nextChannel", domain.next_channel}, {"refusals", EncodeRefusals(domain.refusals)}};
  if (domain.compute_domain) {
    spec["computeDomain"] = EncodeRef(*domain.compute_domain);
    spec["allocationMode"] = ToString(domain.allocation_mode);
  }
  return {{"apiVersion", kImexDomains.ApiVersion()},
          {"kind", kImexDomains.kind},
          {"metadata", EncodeMeta(domain.meta)},
          {"spec", std::move(spec)}};
}

}  // namespace cd::api
