// The reading half of World.
#include "src/controller/world.h"

#include <algorithm>

#include "src/domain/isolation.h"

namespace cd::controller {

using api::ComputeDomain;
using api::ImexNode;

domain::Demand World::DemandOf(const ChannelClaim& claim) const {
  return {claim.node,
          claim.meta.ns,
          claim.meta.name,
          *claim.config,
          claim.meta.uid,
          claim.slots,
          claim.slots >= settings_.devices.slots};
}

bool World::Concerns(const domain::Clique& clique, const ImexNode& node) const {
  const bool exclusive = !api::IdentityOf(clique.name).owner_uid.empty();
  const auto& reported = node.status.clique_ids;
  if (!exclusive && std::find(reported.begin(), reported.end(), clique.name) != reported.end()) return true;
  if (exclusive && WantedDomainOf(node) == clique.name) return true;
  if (node.domain && node.domain->name == clique.name) return true;
  const auto& held = node.status.channels;
  const auto of_this = [&](const api::NodeChannel& entry) {
    return entry.domain == clique.name || (clique.domain && entry.domain_uid == clique.domain->meta.uid);
  };
  if (std::any_of(held.begin(), held.end(), of_this)) return true;
  return clique.domain && api::FindMember(*clique.domain, node.meta.name) != nullptr;
}

std::string World::WantedDomainOf(const ImexNode& node) const {
  if (node.status.clique_ids.size() != 1) return "";
  const std::string& clique_id = node.status.clique_ids.front();
  if (exclusive_.empty()) return clique_id;
  std::vector<domain::Demand> demands;
  domain::KnownDomains known;
  for (const ChannelClaim* claim : ClaimsOn(node.meta.name)) {
    demands.push_back(DemandOf(*claim));
    LearnView(known, claim->config->domain_id);
  }
  const std::string current = node.domain ? node.domain->name : MembershipOf(node.meta.name);
  return domain::WantedDomain(clique_id, current, node, demands, known);
}

std::string World::MembershipOf(const std::string& node) const {
  const auto it = domains_of_member_.find(node);
  return it == domains_of_member_.end() ? "" : *it->second.begin();
}

// The assignment first: it is what the plugin acts on, and what a stale view of another domain must not take away.
std::string World::CliqueNameOf(const ImexNode& node) const {
  if (node.domain) return node.domain->name;
  const std::string member_of = MembershipOf(node.meta.name);
  return member_of.empty() ? WantedDomainOf(node) : member_of;
}

domain::Clique World::CliqueNamed(const std::string& name) const {
  domain::Clique clique;
  clique.name = name;
  const std::string clique_id = api::IdentityOf(name).clique_id;
  for (const auto& [key, domain] : domains_.objects()) {
    if (key.name == name) {
      (api::IsMade(*domain) ? clique.domain : clique.begun) = *domain;
    } else {
      clique.other_domains.insert(domain->meta.uid);
    }
  }
  for (const auto& [key, node] : nodes_.objects()) {
    const auto& reported = node->status.clique_ids;
    if (reported.size() == 1 && reported.front() == clique_id && WantedDomainOf(*node) != name)
      clique.wanted_elsewhere.insert(key.name);
    if (!Concerns(clique, *node)) continue;
    clique.nodes.push_back(node);
    const auto member_of = domains_of_member_.find(key.name);
    if (member_of == domains_of_member_.end()) continue;
    if (member_of->second.size() > member_of->second.count(name)) clique.members_elsewhere.insert(key.name);
  }
  return clique;
}

std::vector<const ChannelClaim*> World::ClaimsOn(const std::string& node) const {
  std::vector<const ChannelClaim*> out;
  const auto it = claims_by_node_.find(node);
  if (it == claims_by_node_.end()) return out;
  for (const api::ObjectKey& key : it->second) out.push_back(claims_.Get(key).get());
  return out;
}

void World::LearnView(domain::KnownDomains& known, const std::string& uid) const {
  if (compute_domains_.WasDeleted(uid)) known.deleted.insert(uid);
  const auto key = key_by_uid_.find(uid);
  if (key == key_by_uid_.end() || known.cached.contains(uid)) return;
  const auto cd = compute_domains_.Get(key->second);
  // The name may have a new bearer already.
  if (cd && cd->meta.uid == uid) known.cached[uid] = domain::ViewOf(*cd);
}

void World::Learn(domain::KnownDomains& known, const std::string& uid) const {
  LearnView(known, uid);
  const auto view = known.cached.find(uid);
  if (view == known.cached.end() || !view->second.gated || known.gates.contains(uid)) return;
  const auto orders = orders_.find(uid);
  known.gates[uid] = {GateOpen(uid), orders == orders_.end() ? std::set<std::string>() : orders->second};
}

// In use, and of its own namespace: a claim of another one never makes its node one of this ComputeDomain.
std::vector<const ChannelClaim*> World::ClaimsOf(const ComputeDomain& cd) const {
  std::vector<const ChannelClaim*> out;
  const auto claims = claims_by_domain_.find(cd.meta.uid);
  if (claims == claims_by_domain_.end()) return out;
  for (const api::ObjectKey& key : claims->second) {
    if (key.ns == cd.meta.ns) out.push_back(claims_.Get(key).get());
  }
  return out;
}

bool World::GateOpen(const std::string& uid) const {
  const auto key = key_by_uid_.find(uid);
  const auto cd = key == key_by_uid_.end() ? nullptr : compute_domains_.Get(key->second);
  if (!cd) return false;
  const auto claims = ClaimsOf(*cd);
  const auto lets_go = [&](const auto& lease) {
    return std::any_of(claims.begin(), claims.end(), [&](const ChannelClaim* claim) { return lease.Releases(claim->meta.uid); });
  };
  for (const auto& [name, domain] : domains_.objects()) {
    const api::ChannelLease* lease = api::FindLease(*domain, uid);
    if (lease != nullptr && lease->state == api::LeaseState::kActive && lets_go(*lease)) return true;
  }
  return std::any_of(claims.begin(), claims.end(), [&](const ChannelClaim* claim) {
    const auto node = nodes_.Get({"", claim->node});
    const api::Exemption* exemption = node ? domain::FindExemption(*node, uid) : nullptr;
    return exemption != nullptr && exemption->Releases(claim->meta.uid);
  });
}

DomainSnapshot World::SnapshotDomain(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  DomainSnapshot out;
  out.clique = CliqueNamed(name);
  out.imex_config = settings_.imex;
  if (const std::string owner = api::IdentityOf(name).owner_uid; !owner.empty()) Learn(out.known, owner);
  for (const domain::NodePtr& node : out.clique.nodes) {
    for (const ChannelClaim* claim : ClaimsOn(node->meta.name)) out.demands.push_back(DemandOf(*claim));
    for (const api::NodeChannel& held : node->status.channels) Learn(out.known, held.compute_domain_uid);
  }
  for (const domain::Demand& demand : out.demands) Learn(out.known, demand.config.domain_id);
  if (out.clique.domain) {
    for (const api::ChannelLease& lease : out.clique.domain->channels) Learn(out.known, lease.compute_domain.uid);
  } else {
    // A rebuild may find channels of anybody.
    for (const auto& [uid, key] : key_by_uid_) Learn(out.known, uid);
  }
  return out;
}

std::optional<NodeSnapshot> World::SnapshotNode(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  NodeSnapshot out;
  out.node = nodes_.Get({"", name});
  if (!out.node) return std::nullopt;
  const std::string clique = CliqueNameOf(*out.node);
  if (!clique.empty()) out.clique = CliqueNamed(clique);
  for (const api::Exemption& exemption : out.node->exemptions) Learn(out.known, exemption.compute_domain.uid);
  for (const ChannelClaim* claim : ClaimsOn(name)) {
    Learn(out.known, claim->config->domain_id);
    const Progress& progress = progress_.at(claim->meta.uid);
    out.claims.push_back({DemandOf(*claim), claim->meta.uid, claim->pods, progress.state, progress.old, progress.calls,
                          clock_.Now() - progress.first_in_use});
  }
  return out;
}

std::string World::CliqueIdOf(const ImexNode& node) const {
  return api::IdentityOf(CliqueNameOf(node)).clique_id;
}

bool World::MayBeIn(const std::string& node, const std::string& clique_id) const {
  const std::lock_guard lock(mutex_);
  const auto known = nodes_.Get({"", node});
  return !known || !known->reported || CliqueIdOf(*known) == clique_id;
}

bool World::MustBeIn(const std::string& node, const std::string& clique_id) const {
  const std::lock_guard lock(mutex_);
  const auto known = nodes_.Get({"", node});
  if (!known || !known->reported || CliqueIdOf(*known) != clique_id) return false;
  const auto& held = known->status.channels;
  return std::all_of(held.begin(), held.end(), [&](const auto& entry) {
    return entry.domain.empty() || api::IdentityOf(entry.domain).clique_id == clique_id;
  });
}

TemplateView World::ViewTemplate(const ComputeDomain& cd) const {
  TemplateView view;
  const auto claim_template = templates_.Get({cd.meta.ns, cd.claim_template_name});
  if (!claim_template) return view;
  view.exists = true;
  view.uid = claim_template->meta.uid;
  const auto label = claim_template->meta.labels.find(api::kComputeDomainLabel);
  view.ours = label != claim_template->meta.labels.end() && label->second == cd.meta.uid;
  if (!view.ours && label != claim_template->meta.labels.end()) view.owner = NameOfLocked(label->second);
  return view;
}

std::optional<ComputeDomainSnapshot> World::SnapshotComputeDomain(const api::ObjectKey& key) const {
  const std::lock_guard lock(mutex_);
  ComputeDomainSnapshot out;
  out.cd = compute_domains_.Get(key);
  if (!out.cd) return std::nullopt;
  const std::string& uid = out.cd->meta.uid;
  out.claim_template = ViewTemplate(*out.cd);
  std::set<std::string> nodes;
  for (const ChannelClaim* claim : ClaimsOf(*out.cd)) {
    nodes.insert(claim->node);
    if (!out.cd->gating) continue;
    const Progress& progress = progress_.at(claim->meta.uid);
    out.gate.claims.push_back({claim->meta.uid, claim->pods, clock_.Now() - progress.first_in_use, progress.old});
  }
  out.gate.open = out.cd->gating && GateOpen(uid);
  out.nodes.assign(nodes.begin(), nodes.end());
  std::set<std::string> cliques;
  for (const std::string& name : out.nodes) {
    const auto node = nodes_.Get({"", name});
    if (!node) continue;
    out.reports.push_back(node);
    cliques.insert(CliqueNameOf(*node));
  }
  for (const auto& [domain_key, domain] : domains_.objects()) {
    const bool leases = api::FindLease(*domain, uid) != nullptr || (domain->compute_domain && domain->compute_domain->uid == uid);
    if (leases || cliques.contains(domain_key.name)) out.domains[domain_key.name] = domain;
  }
  return out;
}

}  // namespace cd::controller
