// Short ways to write the worlds of the tests of src/domain and src/controller. Test code only.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/api/compute_domain.h"
#include "src/domain/clique.h"

namespace cd::domain::testing {

inline constexpr char kClique[] = "3f0e6c1a-0000-4000-8000-000000000001.1";
inline constexpr char kDomainUid[] = "domain-uid";
inline constexpr char kRed[] = "0c5b2b1e-7c3c-4a39-9f0f-3a7f6a0f2d11";
inline constexpr char kBlue[] = "5f2a1c38-0f64-4c7e-8a6e-0d9b6a0f2d22";

// A node of kClique that has reported, without assignment.
inline api::ImexNode Node(const std::string& name) {
  api::ImexNode node;
  node.meta.name = name;
  node.meta.resource_version = "1";
  node.reported = true;
  node.status.boot_id = "boot-" + name;
  node.status.fabric = api::FabricState::kReady;
  node.status.clique_ids = {kClique};
  node.status.daemon.address = "ip-" + name;
  node.status.daemon.state = api::DaemonState::kStarting;
  return node;
}

// A node whose driver answers and says that it has no fabric.
inline api::ImexNode WithoutFabric(const std::string& name) {
  api::ImexNode node = Node(name);
  node.status.fabric = api::FabricState::kNone;
  node.status.clique_ids.clear();
  node.status.driver_version = "580.1";
  node.status.daemon = {};
  return node;
}

// A node as a member of the domain, its daemon READY.
inline api::ImexNode Assigned(const std::string& name, int index) {
  api::ImexNode node = Node(name);
  node.domain = api::DomainAssignment{kClique, kDomainUid, index};
  node.status.daemon.state = api::DaemonState::kReady;
  node.status.daemon.domain_uid = kDomainUid;
  node.status.daemon.index = index;
  return node;
}

inline api::ImexNode Holding(api::ImexNode node, int channel, const std::string& owner, const std::string& domain = kDomainUid) {
  node.status.channels.push_back({domain, channel, owner});
  return node;
}

inline Nodes All(std::vector<api::ImexNode> nodes) {
  Nodes out;
  for (api::ImexNode& node : nodes) out.push_back(std::make_shared<const api::ImexNode>(std::move(node)));
  return out;
}

inline api::ImexDomain Domain() {
  api::ImexDomain domain;
  domain.meta.name = kClique;
  domain.meta.uid = kDomainUid;
  domain.meta.resource_version = "10";
  domain.meta.finalizers = {api::kFinalizer};
  domain.clique_id = kClique;
  return domain;
}

inline api::DomainMember Member(int index, const std::string& node) {
  return {index, node, "ip-" + node, "boot-" + node};
}

inline api::ChannelLease Lease(int channel, const std::string& uid, api::LeaseState state = api::LeaseState::kActive) {
  return {channel, {"team", uid == kRed ? "red" : "blue", uid}, state, true};
}

inline Clique CliqueOf(api::ImexDomain domain, std::vector<api::ImexNode> nodes) {
  Clique clique;
  clique.name = kClique;
  clique.domain = std::move(domain);
  clique.nodes = All(std::move(nodes));
  return clique;
}

inline api::ComputeDomain Red() {
  api::ComputeDomain cd;
  cd.meta.ns = "team";
  cd.meta.name = "red";
  cd.meta.uid = kRed;
  cd.meta.generation = 1;
  cd.meta.resource_version = "5";
  cd.meta.finalizers = {api::kFinalizer};
  cd.claim_template_name = "red-channel";
  return cd;
}

}  // namespace cd::domain::testing
