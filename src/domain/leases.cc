#include "src/domain/leases.h"

#include <algorithm>

namespace cd::domain {

using api::ChannelLease;
using api::DomainMember;
using api::ImexDomain;
using api::ImexNode;
using api::LeaseState;
using api::NodeChannel;

namespace {

bool HasLease(const ImexDomain& domain, int channel) {
  return std::any_of(domain.channels.begin(), domain.channels.end(), [&](const ChannelLease& l) { return l.channel == channel; });
}

int After(int channel) {
  return channel >= kLastChannel ? kFirstChannel : channel + 1;
}

api::ObjectRef Resolve(const std::string& uid, const std::vector<api::ObjectRef>& known) {
  const auto it = std::find_if(known.begin(), known.end(), [&](const api::ObjectRef& ref) { return ref.uid == uid; });
  return it == known.end() ? api::ObjectRef{"", "", uid} : *it;
}

void AddMember(ImexDomain& domain, const ImexNode& node, int index) {
  const bool taken = std::any_of(domain.members.begin(), domain.members.end(),
                                 [&](const DomainMember& m) { return m.index == index || m.node == node.meta.name; });
  if (taken || index < 0 || index >= domain.node_slots) return;
  domain.members.push_back({index, node.meta.name, node.status.daemon.address, node.status.boot_id});
}

// A daemon that runs, or may be started at any moment, keeps its line of the node map, also where the assignment it once had is
// gone.
void RebuildMembers(ImexDomain& domain, const Clique& clique, const Nodes& looked) {
  for (const NodePtr& node : looked) {
    if (DaemonIsHere(clique, *node)) AddMember(domain, *node, node->status.daemon.index);
  }
  for (const NodePtr& node : looked) {
    if (node->domain && node->domain->name == domain.meta.name) AddMember(domain, *node, node->domain->index);
  }
}

}  // namespace

std::optional<int> NextFreeChannel(const ImexDomain& domain, const std::set<int>& listed) {
  int channel = std::clamp(domain.next_channel, kFirstChannel, kLastChannel);
  for (int tried = kFirstChannel; tried <= kLastChannel; ++tried, channel = After(channel)) {
    if (!HasLease(domain, channel) && !listed.contains(channel)) return channel;
  }
  return std::nullopt;
}

std::optional<int> HeldWithoutLease(const Clique& clique, const std::string& compute_domain_uid) {
  std::set<int> own;
  std::set<int> others;
  for (const NodePtr& node : clique.nodes) {
    for (const NodeChannel& entry : node->status.channels) {
      if (!HeldHere(clique, *node, entry)) continue;
      (entry.compute_domain_uid == compute_domain_uid ? own : others).insert(entry.channel);
    }
  }
  for (const int channel : own) {
    if (channel >= kFirstChannel && channel <= kLastChannel && !HasLease(*clique.domain, channel) && !others.contains(channel))
      return channel;
  }
  return std::nullopt;
}

void Grant(ImexDomain& domain, const api::ObjectRef& owner, int channel) {
  domain.channels.push_back({channel, owner, LeaseState::kActive, true});
  domain.next_channel = After(channel);
}

bool Drain(ImexDomain& domain, const std::string& compute_domain_uid) {
  bool changed = false;
  for (ChannelLease& lease : domain.channels) {
    if (lease.compute_domain.uid != compute_domain_uid || lease.state == LeaseState::kDraining) continue;
    lease.state = LeaseState::kDraining;
    changed = true;
  }
  return changed;
}

bool Revive(ImexDomain& domain, const std::string& compute_domain_uid) {
  ChannelLease* draining = nullptr;
  for (ChannelLease& lease : domain.channels) {
    if (lease.compute_domain.uid != compute_domain_uid) continue;
    if (lease.state == LeaseState::kActive) return false;
    if (draining == nullptr) draining = &lease;
  }
  if (draining == nullptr) return false;
  draining->state = LeaseState::kActive;
  return true;
}

std::vector<int> FreeableChannels(const Clique& clique, const Nodes& looked) {
  std::vector<int> out;
  for (const ChannelLease& lease : clique.domain->channels) {
    if (lease.state == LeaseState::kDraining && PossibleHolders(clique, looked, lease.channel).empty())
      out.push_back(lease.channel);
  }
  return out;
}

bool WorthLooking(const Clique& clique) {
  return !FreeableChannels(clique, clique.nodes).empty();
}

void FreeChannels(ImexDomain& domain, const std::vector<int>& channels) {
  std::erase_if(domain.channels, [&](const ChannelLease& lease) {
    return lease.state == LeaseState::kDraining && std::find(channels.begin(), channels.end(), lease.channel) != channels.end();
  });
}

ImexDomain Unmade(ImexDomain empty) {
  empty.meta.annotations[api::kUnmadeAnnotation] = "";
  return empty;
}

ImexDomain Rebuild(const ImexDomain& unmade, const Clique& clique, const Nodes& looked,
                   const std::vector<api::ObjectRef>& known) {
  ImexDomain domain = unmade;
  domain.meta.annotations.erase(api::kUnmadeAnnotation);
  RebuildMembers(domain, clique, looked);
  for (const NodePtr& node : looked) {
    for (const NodeChannel& entry : node->status.channels) {
      if (entry.channel < kFirstChannel || !HeldHere(clique, *node, entry) || HasLease(domain, entry.channel)) continue;
      // One ComputeDomain on two numbers breaks R1 already: the second one may only be drained.
      const bool second = FindLease(domain, entry.compute_domain_uid) != nullptr;
      domain.channels.push_back(
          {entry.channel, Resolve(entry.compute_domain_uid, known), second ? LeaseState::kDraining : LeaseState::kActive, true});
      domain.next_channel = std::max(domain.next_channel, entry.channel + 1);
    }
  }
  if (domain.next_channel > kLastChannel) domain.next_channel = kFirstChannel;
  std::sort(domain.members.begin(), domain.members.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  return domain;
}

}  // namespace cd::domain
