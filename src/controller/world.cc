#include "src/controller/world.h"

namespace cd::controller {

using api::ComputeDomain;
using api::ImexDomain;
using api::ImexNode;

namespace {

void EraseFrom(std::map<std::string, std::set<api::ObjectKey>>& index, const std::string& name, const api::ObjectKey& key) {
  const auto it = index.find(name);
  if (it == index.end()) return;
  it->second.erase(key);
  if (it->second.empty()) index.erase(it);
}

}  // namespace

void World::QueueComputeDomain(const std::string& uid) {
  const auto it = key_by_uid_.find(uid);
  if (it != key_by_uid_.end()) QueueComputeDomain(it->second);
}

void World::QueueDomainsOf(const ImexNode& node) {
  for (const std::string& clique : node.status.clique_ids) QueueDomain(clique);
  if (node.domain) QueueDomain(node.domain->name);
  if (const std::string wanted = WantedDomainOf(node); !wanted.empty()) QueueDomain(wanted);
  if (const auto it = domains_of_member_.find(node.meta.name); it != domains_of_member_.end()) {
    for (const std::string& domain : it->second) QueueDomain(domain);
  }
  // One that no node is in any more may have been kept for this one.
  for (const auto& [key, domain] : domains_.objects()) {
    if (domain->mode == api::DomainMode::kExclusive && domain->members.empty()) QueueDomain(key.name);
  }
  for (const api::NodeChannel& held : node.status.channels) {
    if (!held.domain.empty()) QueueDomain(held.domain);
    for (const auto& [key, domain] : domains_.objects()) {
      if (domain->meta.uid == held.domain_uid) QueueDomain(key.name);
    }
  }
}

// One that no node belongs in any more is found by its owner alone.
void World::QueueExclusiveDomainsOf(const std::string& compute_domain_uid) {
  for (const auto& [key, domain] : domains_.objects()) {
    if (domain->compute_domain && domain->compute_domain->uid == compute_domain_uid) QueueDomain(key.name);
  }
}

// Their slot here was all that kept them from entering another domain, and no report of theirs need follow.
void World::QueueThoseWhoLeft(const ImexDomain& before, const ImexDomain& after) {
  for (const api::DomainMember& member : before.members) {
    if (api::FindMember(after, member.node) != nullptr) continue;
    const auto node = nodes_.Get({"", member.node});
    if (!node) continue;
    QueueDomainsOf(*node);
    QueueNode(member.node);
  }
}

// The lease is what a pod waits for, so domains come before statuses.
void World::QueueClaimsPlace(const ChannelClaim& claim) {
  if (!claim.config) return;
  if (const auto node = nodes_.Get({"", claim.node})) {
    QueueDomainsOf(*node);
    QueueNode(claim.node);
  }
  QueueExclusiveDomainsOf(claim.config->domain_id);
  QueueComputeDomain(claim.config->domain_id);
}

void World::NodeChanged(const ImexNode& node) {
  QueueDomainsOf(node);
  QueueNode(node.meta.name);
  for (const ChannelClaim* claim : ClaimsOn(node.meta.name)) QueueComputeDomain(claim->config->domain_id);
}

// It is somebody else's turn to have its daemon replaced.
void World::QueueNeighbours(const ImexNode& node) {
  const std::string clique_id = CliqueIdOf(node);
  for (const auto& [key, other] : nodes_.objects()) {
    if (CliqueIdOf(*other) == clique_id) QueueNode(key.name);
  }
}

void World::DomainChanged(const ImexDomain& domain) {
  QueueDomain(domain.meta.name);
  for (const auto& [key, node] : nodes_.objects()) {
    if (CliqueNameOf(*node) != domain.meta.name) continue;
    QueueNode(key.name);
    for (const ChannelClaim* claim : ClaimsOn(key.name)) QueueComputeDomain(claim->config->domain_id);
  }
  for (const api::ChannelLease& lease : domain.channels) QueueComputeDomain(lease.compute_domain.uid);
}

void World::ComputeDomainChanged(const ComputeDomain& cd) {
  QueueComputeDomain(cd.meta.Key());
  for (const auto& [key, domain] : domains_.objects()) {
    if (api::FindLease(*domain, cd.meta.uid) != nullptr) QueueDomain(key.name);
  }
  QueueExclusiveDomainsOf(cd.meta.uid);
  if (cd.meta.deleting) QueueNodesExempting(cd.meta.uid);
  const auto claims = claims_by_domain_.find(cd.meta.uid);
  if (claims == claims_by_domain_.end()) return;
  for (const api::ObjectKey& key : claims->second) QueueClaimsPlace(*claims_.Get(key));
}

// Their exemptions go with it; no claim may be left that would bring the nodes up.
void World::QueueNodesExempting(const std::string& uid) {
  for (const auto& [key, node] : nodes_.objects()) {
    if (domain::FindExemption(*node, uid) != nullptr) QueueNode(key.name);
  }
}

void World::TemplateChanged(const ClaimTemplate& claim_template) {
  for (const auto& [key, cd] : compute_domains_.objects()) {
    if (key.ns == claim_template.meta.ns && cd->claim_template_name == claim_template.meta.name) QueueComputeDomain(key);
  }
}

void World::Put(const std::shared_ptr<const ComputeDomain>& cd, Source source) {
  const std::lock_guard lock(mutex_);
  if (!compute_domains_.Put(cd, source)) return;
  key_by_uid_[cd->meta.uid] = cd->meta.Key();
  if (cd->isolation_mode == api::IsolationMode::kDomain) exclusive_.insert(cd->meta.uid);
  ComputeDomainChanged(*cd);
}

void World::Put(const std::shared_ptr<const ImexDomain>& domain, Source source) {
  const std::lock_guard lock(mutex_);
  const auto before = domains_.Get(domain->meta.Key());
  if (!domains_.Put(domain, source)) return;
  if (before) UnindexMembers(*before);
  IndexMembers(*domain);
  DomainChanged(*domain);
  if (before) QueueThoseWhoLeft(*before, *domain);
}

void World::Put(const std::shared_ptr<const ImexNode>& node, Source source) {
  const std::lock_guard lock(mutex_);
  const auto before = nodes_.Get(node->meta.Key());
  if (!nodes_.Put(node, source)) return;
  if (before) QueueDomainsOf(*before);
  NodeChanged(*node);
  if (before && !before->maintenance.empty() && node->maintenance.empty()) QueueNeighbours(*before);
}

void World::Put(const std::shared_ptr<const ChannelClaim>& claim, Source source) {
  const std::lock_guard lock(mutex_);
  const auto before = claims_.Get(claim->meta.Key());
  if (!claims_.Put(claim, source) || (before && *before == *claim)) return;
  if (before) Unindex(*before);
  Index(*claim);
  if (before) QueueClaimsPlace(*before);
  QueueClaimsPlace(*claim);
}

void World::Put(const std::shared_ptr<const ClaimTemplate>& claim_template, Source source) {
  const std::lock_guard lock(mutex_);
  if (templates_.Put(claim_template, source)) TemplateChanged(*claim_template);
}

void World::Remove(const std::shared_ptr<const ComputeDomain>& cd) {
  const std::lock_guard lock(mutex_);
  compute_domains_.Remove(cd);
  exclusive_.erase(cd->meta.uid);
  ComputeDomainChanged(*cd);
  QueueNodesExempting(cd->meta.uid);
  key_by_uid_.erase(cd->meta.uid);
  orders_.erase(cd->meta.uid);
}

void World::Remove(const std::shared_ptr<const ImexDomain>& domain) {
  const std::lock_guard lock(mutex_);
  // What was indexed is the version known so far; the deleted one may be newer and have lost members in between.
  const auto before = domains_.Get(domain->meta.Key());
  domains_.Remove(domain);
  if (!domains_.Get(domain->meta.Key())) {
    if (before) UnindexMembers(*before);
    UnindexMembers(*domain);
  }
  DomainChanged(*domain);
  QueueThoseWhoLeft(before ? *before : *domain, ImexDomain());
}

void World::Remove(const std::shared_ptr<const ImexNode>& node) {
  const std::lock_guard lock(mutex_);
  nodes_.Remove(node);
  NodeChanged(*node);
  if (!node->maintenance.empty()) QueueNeighbours(*node);
}

void World::Remove(const std::shared_ptr<const ChannelClaim>& claim) {
  const std::lock_guard lock(mutex_);
  claims_.Remove(claim);
  Unindex(*claim);
  QueueClaimsPlace(*claim);
}

void World::Remove(const std::shared_ptr<const ClaimTemplate>& claim_template) {
  const std::lock_guard lock(mutex_);
  templates_.Remove(claim_template);
  TemplateChanged(*claim_template);
}

void World::IndexMembers(const ImexDomain& domain) {
  for (const api::DomainMember& member : domain.members) domains_of_member_[member.node].insert(domain.meta.name);
}

void World::UnindexMembers(const ImexDomain& domain) {
  for (const api::DomainMember& member : domain.members) {
    const auto it = domains_of_member_.find(member.node);
    if (it == domains_of_member_.end()) continue;
    it->second.erase(domain.meta.name);
    if (it->second.empty()) domains_of_member_.erase(it);
  }
}

void World::Index(const ChannelClaim& claim) {
  if (!claim.InUse()) return;
  claims_by_domain_[claim.config->domain_id].insert(claim.meta.Key());
  claims_by_node_[claim.node].insert(claim.meta.Key());
  progress_.try_emplace(claim.meta.uid, Progress{clock_.Now(), false, domain::WakeState::kWaiting});
}

void World::Unindex(const ChannelClaim& claim) {
  if (claim.config) EraseFrom(claims_by_domain_, claim.config->domain_id, claim.meta.Key());
  EraseFrom(claims_by_node_, claim.node, claim.meta.Key());
  // A claim made by hand that is used by one pod after another starts anew.
  const auto now = claims_.Get(claim.meta.Key());
  if (!now || now->meta.uid != claim.meta.uid || !now->InUse()) progress_.erase(claim.meta.uid);
}

void World::OrderRelease(const std::string& compute_domain_uid, std::set<std::string> claims) {
  const std::lock_guard lock(mutex_);
  auto& standing = orders_[compute_domain_uid];
  const bool news = standing != claims && !claims.empty();
  standing = std::move(claims);
  if (standing.empty()) orders_.erase(compute_domain_uid);
  const auto in_use = claims_by_domain_.find(compute_domain_uid);
  if (!news || in_use == claims_by_domain_.end()) return;
  for (const api::ObjectKey& key : in_use->second) QueueClaimsPlace(*claims_.Get(key));
}

void World::BeginToAct() {
  const std::lock_guard lock(mutex_);
  for (auto& [uid, progress] : progress_) progress.old = true;
}

void World::Remember(const std::vector<WakeRecord>& records) {
  const std::lock_guard lock(mutex_);
  for (const WakeRecord& record : records) {
    const auto it = progress_.find(record.claim_uid);
    if (it == progress_.end()) continue;
    it->second.state = record.state;
    it->second.calls = record.calls;
  }
}

std::string World::NameOfComputeDomain(const std::string& uid) const {
  const std::lock_guard lock(mutex_);
  return NameOfLocked(uid);
}

std::string World::NameOfLocked(const std::string& uid) const {
  const auto it = key_by_uid_.find(uid);
  return it == key_by_uid_.end() ? "a ComputeDomain with UID " + uid : "ComputeDomain " + ToString(it->second);
}

}  // namespace cd::controller
