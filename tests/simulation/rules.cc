// R1–R3 and what must be left at the end.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/simulation/simulation.h"

namespace cd::simulation {

using nlohmann::json;

namespace {

struct Holder {
  const Node* node;
  pid_t pid;
  const Container* container;
};

std::string Say(const Holder& holder) {
  return "process " + std::to_string(holder.pid) + " on " + holder.node->Name() + " holds channel " +
         std::to_string(holder.container->channel) + " of " + holder.container->compute_domain_uid;
}

}  // namespace

void Simulation::Check() {
  if (!context_.holders_changed) return;
  context_.holders_changed = false;
  CheckHolders();
  CheckSharing();
  CheckMoved();
  CheckDaemons();
  CheckPartitions();
  CheckGates();
}

// Whoever starts has, or had since its gang began, as many nodes beside it as its ComputeDomain asks for.
void Simulation::CheckGates() {
  for (const auto& node : nodes_) {
    for (const auto& [pid, container] : node->containers()) {
      const auto gate = context_.gates.find(container.compute_domain_uid);
      if (static_cast<std::uint64_t>(pid) < checked_pids_ || gate == context_.gates.end() || !gate->second.fails) continue;
      if (!InUse(*node, container)) continue;
      if (!std::exchange(gate->second.started, true)) ++outcome_.formations;
      if (gate->second.most_nodes >= static_cast<std::size_t>(gate->second.min_nodes)) continue;
      context_.Violate("gate", "process " + std::to_string(pid) + " on " + node->Name() + " starts when " +
                                   std::to_string(gate->second.most_nodes) + " of " + std::to_string(gate->second.min_nodes) +
                                   " nodes have a pod of " + container.compute_domain_uid);
    }
  }
  checked_pids_ = context_.next_pid;
}

// Its pod is to run, and its claim is the pod's: not what is left of one that ended.
bool Simulation::InUse(const Node& node, const Container& container) {
  const auto work = node.pods().find(container.pod_uid);
  if (work == node.pods().end()) return false;
  const ObjectPtr pod = context_.server.Find(api::kPods, {work->second.pod.ns, work->second.pod.name});
  const ObjectPtr claim = context_.server.Find(api::kResourceClaims, {work->second.claim.ns, work->second.claim.name});
  const auto is = [](const ObjectPtr& object, const std::string& uid) {
    return object != nullptr && object->at("metadata").value("uid", "") == uid &&
           !object->at("metadata").contains("deletionTimestamp");
  };
  return is(pod, container.pod_uid) && is(claim, container.claim_uid) && claim->contains("/status/reservedFor"_json_pointer);
}

// partitionPolicy Single.
void Simulation::CheckPartitions() {
  std::map<std::string, Holder> first;
  for (const auto& node : nodes_) {
    for (const auto& [pid, container] : node->containers()) {
      if (container.channel == 0 || !context_.single.contains(container.compute_domain_uid) || !InUse(*node, container)) continue;
      const Holder holder{node.get(), pid, &container};
      const auto [it, fresh] = first.try_emplace(container.compute_domain_uid, holder);
      if (!fresh && it->second.container->domain != container.domain)
        context_.Violate("partition", Say(it->second) + " in " + it->second.container->domain + "; " + Say(holder) + " in " +
                                          container.domain);
    }
  }
}

// R1 among live processes, whatever the API says.
void Simulation::CheckHolders() {
  std::vector<Holder> holders;
  for (const auto& node : nodes_) {
    for (const auto& [pid, container] : node->containers()) {
      if (container.channel != 0) holders.push_back({node.get(), pid, &container});
    }
  }
  for (std::size_t i = 0; i < holders.size(); ++i) {
    for (std::size_t j = i + 1; j < holders.size(); ++j) {
      const Container& a = *holders[i].container;
      const Container& b = *holders[j].container;
      const bool same_domain = a.domain == b.domain;
      const bool same_owner = a.compute_domain_uid == b.compute_domain_uid;
      const bool same_node = holders[i].node == holders[j].node;
      const bool same_number = a.channel == b.channel || a.devices > 1 || b.devices > 1;
      if ((same_domain || same_node) && same_number && !same_owner) {
        context_.Violate("R1", Say(holders[i]) + "; " + Say(holders[j]));
      }
      if (same_domain && same_owner && a.channel != b.channel) context_.Violate("R1", Say(holders[i]) + "; " + Say(holders[j]));
    }
  }
  for (const Holder& holder : holders) {
    const Kind& kind = kinds_[holder.container->compute_domain_uid];
    const int devices = kind.all ? kChannels : 1;
    if (holder.container->devices != devices)
      context_.Violate("R2", Say(holder) + " and has " + std::to_string(holder.container->devices) + " devices");
    const Daemon& daemon = holder.node->daemon();
    if (daemon.running && daemon.domain.name != holder.container->domain) {
      context_.Violate(
          "R3", holder.node->Name() + " serves " + daemon.domain.name + "; " + Say(holder) + " in " + holder.container->domain);
    }
  }
}

// R5: nobody else on a node of a ComputeDomain with isolationMode Domain. Without a channel nothing tells of a process that has
// outlived its pod, so there it is about pods.
void Simulation::CheckSharing() {
  for (const auto& node : nodes_) {
    for (const auto& [pid, a] : node->containers()) {
      for (const auto& [other_pid, b] : node->containers()) {
        const bool exclusive = kinds_[a.compute_domain_uid].exclusive;
        if (!exclusive || a.compute_domain_uid == b.compute_domain_uid) continue;
        const bool counts = (a.channel != 0 || InUse(*node, a)) && (b.channel != 0 || InUse(*node, b));
        if (counts) context_.Violate("R5", Say({node.get(), pid, &a}) + "; " + Say({node.get(), other_pid, &b}));
      }
    }
  }
}

// R3: a node is not taken out of a domain in a version of its report that lists channels, all of them granted by the domain. (One
// that holds what is not granted has to go: its processes might meet the number's next owner.)
void Simulation::CheckAssignment(const api::ObjectKey& key, const ObjectPtr& now) {
  const ObjectPtr before = std::exchange(imex_nodes_[key], now);
  if (before == nullptr || now == nullptr) {
    left_domains_.erase(key.name);  // an assignment that is lost with its object was not taken back
    return;
  }
  const auto name = "/spec/domain/name"_json_pointer;
  const std::string left = before->value(name, "");
  const std::string entered = now->value(name, "");
  if (left == entered) return;
  left_domains_.erase(key.name);
  if (left.empty()) return;
  left_domains_[key.name] = left;
  const json listed = now->value("/status/channels"_json_pointer, json::array());
  const bool granted = std::all_of(listed.begin(), listed.end(), [&](const json& entry) {
    return IsGranted(left, entry["computeDomainUID"], entry["channel"]);
  });
  if (!listed.empty() && granted) context_.Violate("R3", key.name + " is taken out of " + left + " and lists " + listed.dump());
}

bool Simulation::IsGranted(const std::string& imex_domain, const std::string& compute_domain_uid, int channel) const {
  const ObjectPtr object = context_.server.Find(api::kImexDomains, {"", imex_domain});
  if (object == nullptr) return false;
  const auto domain = api::DecodeImexDomain(*object);
  const api::ChannelLease* lease = api::FindLease(*domain, compute_domain_uid);
  return lease != nullptr && lease->channel == channel;
}

// R3: nobody starts with a channel of a domain that the node was taken out of.
void Simulation::CheckMoved() {
  for (const auto& node : nodes_) {
    const auto left = left_domains_.find(node->Name());
    if (left == left_domains_.end()) continue;
    for (const auto& [pid, container] : node->containers()) {
      const bool starts = static_cast<std::uint64_t>(pid) >= checked_pids_ && container.domain == left->second;
      if (starts && IsGranted(container.domain, container.compute_domain_uid, container.channel))
        context_.Violate("R3", Say({node.get(), pid, &container}) + " in " + left->second + ", which the node has left");
    }
  }
}

// R3: one node per (domain, index) among daemons that run.
void Simulation::CheckDaemons() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (std::size_t j = i + 1; j < nodes_.size(); ++j) {
      const Daemon& a = nodes_[i]->daemon();
      const Daemon& b = nodes_[j]->daemon();
      if (!a.running || !b.running || a.domain.name != b.domain.name || a.domain.index != b.domain.index) continue;
      context_.Violate("R3", "index " + std::to_string(a.domain.index) + " of " + a.domain.name + " is run by " +
                                 nodes_[i]->Name() + " and " + nodes_[j]->Name());
    }
  }
}

// The object's own consistency, at every write.
void Simulation::CheckDomainObject(const json& object) {
  const auto domain = api::DecodeImexDomain(object);
  if (!domain) return context_.Violate("R6", "IMEXDomain cannot be read: " + domain.error().message);
  std::set<int> channels, indexes;
  std::set<std::string> owners, members;
  for (const api::ChannelLease& lease : domain->channels) {
    if (!channels.insert(lease.channel).second) context_.Violate("R1", "two leases of channel " + std::to_string(lease.channel));
    if (lease.state == api::LeaseState::kActive && !owners.insert(lease.compute_domain.uid).second) {
      context_.Violate("R1", "two leases of " + lease.compute_domain.uid);
    }
  }
  for (const api::DomainMember& member : domain->members) {
    if (!indexes.insert(member.index).second) context_.Violate("R3", "two members with index " + std::to_string(member.index));
    if (!members.insert(member.node).second) context_.Violate("R3", "two slots of " + member.node);
  }
}

// For people who look at a violation.
std::string Simulation::State() const {
  std::string out;
  for (const auto* type : {&api::kComputeDomains, &api::kImexDomains, &api::kImexNodes}) {
    for (const auto& [key, object] : context_.server.Objects(*type)) {
      json shown = *object;
      for (const char* part : {"creationTimestamp", "generation", "name", "namespace", "labels"}) shown["metadata"].erase(part);
      if (type == &api::kComputeDomains) shown.erase("status");
      shown.erase("apiVersion");
      shown.erase("kind");
      out += type->kind + " " + key.name + " " + shown.dump() + "\n";
    }
  }
  for (const auto& node : nodes_) {
    out += node->Name() + (node->powered() ? " up" : " down") + (deleted_nodes_.contains(node->Name()) ? ", Node deleted" : "") +
           ", clique " + node->clique() + ", " + std::to_string(node->plugins().size()) + " plugins\n";
    const auto checkpoint = node->disk().files.find("/plugin/checkpoint.json");
    if (checkpoint != node->disk().files.end()) out += "  checkpoint " + json::parse(checkpoint->second).dump() + "\n";
  }
  return out;
}

// After faults ended and everything was deleted; empty: nothing.
std::string Simulation::WhatIsLeft() {
  for (const auto& [key, cd] : context_.server.Objects(api::kComputeDomains)) return "ComputeDomain " + key.name;
  for (const auto& [key, claim] : context_.server.Objects(api::kResourceClaims)) return "ResourceClaim " + key.name;
  for (const auto& [key, claim] : context_.server.Objects(api::kResourceClaimTemplates))
    return "ResourceClaimTemplate " + key.name;
  for (const auto& [key, object] : context_.server.Objects(api::kImexDomains)) {
    const auto domain = api::DecodeImexDomain(*object);
    if (!domain) return "an unreadable IMEXDomain";
    if (domain->mode == api::DomainMode::kExclusive) return "exclusive IMEXDomain " + key.name;
    if (!domain->channels.empty()) return "a lease of channel " + std::to_string(domain->channels[0].channel) + " in " + key.name;
    for (const api::DomainMember& member : domain->members) {
      const auto node = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& n) { return n->Name() == member.node; });
      if (deleted_nodes_.contains(member.node)) return "a slot of " + member.node + ", whose Node is deleted";
      if ((*node)->clique() != key.name) return "a slot of " + member.node + " in a clique it has left";
    }
  }
  for (const auto& node : nodes_) {
    if (!node->powered()) continue;
    const Daemon& daemon = node->daemon();
    if (daemon.running && daemon.revision != std::to_string(context_.daemon_revision)) return "an old daemon on " + node->Name();
    if (!node->containers().empty()) return "a process on " + node->Name();
    for (const auto& [path, content] : node->disk().files) {
      if (path.starts_with("/cdi/") || path.starts_with("/plugin/claims/")) return path + " on " + node->Name();
      if (!path.ends_with("checkpoint.json")) continue;
      const json checkpoint = json::parse(content);
      if (checkpoint["bootID"] != node->BootId()) continue;  // counts as empty
      for (const char* what : {"claims", "lingering", "withdrawing"}) {
        if (!checkpoint[what].empty())
          return "checkpoint." + std::string(what) + " on " + node->Name() + ": " + checkpoint[what].dump();
      }
    }
  }
  for (const auto& [key, object] : context_.server.Objects(api::kImexNodes)) {
    if (object->contains("/spec/maintenance"_json_pointer)) return "a maintenance of IMEXNode " + key.name;
    if (object->contains("/spec/exemptions"_json_pointer)) return "an exemption in IMEXNode " + key.name;
    const auto channels = object->value("/status/channels"_json_pointer, json::array());
    if (!channels.empty()) return "channels in IMEXNode " + key.name + ": " + channels.dump();
  }
  return "";
}

}  // namespace cd::simulation
