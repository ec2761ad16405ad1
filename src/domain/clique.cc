#include "src/domain/clique.h"

#include <algorithm>

namespace cd::domain {

using api::ChannelLease;
using api::DomainMember;
using api::ImexNode;
using api::NodeChannel;

std::string VersionOf(const Clique& clique) {
  if (clique.domain) return clique.domain->meta.resource_version;
  return clique.begun ? clique.begun->meta.resource_version : "";
}

const ImexNode* FindNode(const Nodes& nodes, const std::string& name) {
  for (const NodePtr& node : nodes) {
    if (node->meta.name == name) return node.get();
  }
  return nullptr;
}

bool ReportsClique(const Clique& clique, const ImexNode& node) {
  return node.reported && node.status.clique_ids.size() == 1 &&
         node.status.clique_ids.front() == api::IdentityOf(clique.name).clique_id;
}

bool BelongsIn(const Clique& clique, const ImexNode& node) {
  return ReportsClique(clique, node) && !clique.wanted_elsewhere.contains(node.meta.name);
}

namespace {

// Whether a channel of that owner, or the daemon, of an IMEXDomain that exists no longer was of this domain, told by where the
// node is.
bool CameFromHere(const Clique& clique, const ImexNode& node, const std::string& owner_uid) {
  const api::DomainIdentity here = api::IdentityOf(clique.name);
  const bool assigned = node.domain && node.domain->name == clique.name;
  const bool placed = assigned || (clique.domain && FindMember(*clique.domain, node.meta.name) != nullptr);
  if (!here.owner_uid.empty()) return placed && owner_uid == here.owner_uid;
  // Assigned to an exclusive domain of the clique it has none of the shared one's.
  const bool in_exclusive = node.domain && !assigned && api::IdentityOf(node.domain->name).clique_id == here.clique_id;
  return placed || (ReportsClique(clique, node) && !in_exclusive);
}

bool IsGranted(const Clique& clique, const NodeChannel& entry) {
  if (!clique.domain) return false;
  const auto& leases = clique.domain->channels;
  return std::any_of(leases.begin(), leases.end(), [&](const ChannelLease& lease) {
    return lease.channel == entry.channel && lease.compute_domain.uid == entry.compute_domain_uid;
  });
}

// What a node reports of a domain that it knows by that name (if at all) and UID; `owner_uid`: of the channel, or of this domain.
bool IsOfThis(const Clique& clique, const ImexNode& node, const std::string& domain, const std::string& uid,
              const std::string& owner_uid) {
  if (!domain.empty()) return domain == clique.name;
  if (clique.domain && uid == clique.domain->meta.uid) return true;
  return !clique.other_domains.contains(uid) && CameFromHere(clique, node, owner_uid);
}

}  // namespace

bool HeldHere(const Clique& clique, const ImexNode& node, const NodeChannel& entry) {
  return IsOfThis(clique, node, entry.domain, entry.domain_uid, entry.compute_domain_uid);
}

bool DaemonIsHere(const Clique& clique, const ImexNode& node) {
  const api::NodeDaemon& daemon = node.status.daemon;
  return !daemon.domain_uid.empty() &&
         IsOfThis(clique, node, daemon.domain, daemon.domain_uid, api::IdentityOf(clique.name).owner_uid);
}

bool HoldsAnyHere(const Clique& clique, const ImexNode& node) {
  const auto& held = node.status.channels;
  return std::any_of(held.begin(), held.end(), [&](const NodeChannel& entry) { return HeldHere(clique, node, entry); });
}

bool HoldsUngranted(const Clique& clique, const ImexNode& node) {
  const auto& held = node.status.channels;
  return std::any_of(held.begin(), held.end(),
                     [&](const NodeChannel& entry) { return !HeldHere(clique, node, entry) || !IsGranted(clique, entry); });
}

bool HoldsGranted(const Clique& clique, const ImexNode& node) {
  const auto& held = node.status.channels;
  return std::any_of(held.begin(), held.end(),
                     [&](const NodeChannel& entry) { return HeldHere(clique, node, entry) && IsGranted(clique, entry); });
}

std::set<int> ListedChannels(const Clique& clique) {
  std::set<int> out;
  for (const NodePtr& node : clique.nodes) {
    for (const NodeChannel& entry : node->status.channels) {
      if (HeldHere(clique, *node, entry)) out.insert(entry.channel);
    }
  }
  return out;
}

std::vector<std::string> PossibleHolders(const Clique& clique, const Nodes& nodes, int channel) {
  std::vector<std::string> out;
  for (const NodePtr& node : nodes) {
    const auto& held = node->status.channels;
    if (std::any_of(held.begin(), held.end(),
                    [&](const NodeChannel& entry) { return entry.channel == channel && HeldHere(clique, *node, entry); })) {
      out.push_back(node->meta.name);
    }
  }
  if (!clique.domain) return out;
  for (const DomainMember& member : clique.domain->members) {
    const ImexNode* node = FindNode(nodes, member.node);
    if (node == nullptr || !node->reported) out.push_back(member.node);
  }
  return out;
}

}  // namespace cd::domain
