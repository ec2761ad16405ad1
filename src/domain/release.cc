#include "src/domain/release.h"

#include <algorithm>

#include "src/domain/cd_status.h"

namespace cd::domain {

namespace {

bool Sees(const api::ImexNode& node, int index) {
  const auto& connected = node.status.daemon.connected;
  return std::find(connected.begin(), connected.end(), index) != connected.end();
}

}  // namespace

Release DecideRelease(const Release& standing, const GateView* gate, const std::set<std::string>& in_use,
                      const std::set<std::string>& connected) {
  if (gate == nullptr) return {true, {}};
  Release wanted;
  bool adds = standing.all;
  for (const std::string& uid : in_use) {
    const bool stands = std::binary_search(standing.claims.begin(), standing.claims.end(), uid);
    const bool comes = standing.all || gate->release.contains(uid) || (gate->open && connected.contains(uid));
    if (stands || comes) wanted.claims.push_back(uid);
    adds = adds || (comes && !stands);
  }
  return adds || wanted.claims.empty() ? wanted : standing;
}

std::set<std::string> ConnectedClaims(const Clique& clique, const std::vector<Demand>& demands) {
  std::set<const api::ImexNode*> ready;
  for (const Demand& demand : demands) {
    const api::ImexNode* node = FindNode(clique.nodes, demand.node);
    if (node != nullptr && clique.domain && ServesNow(*clique.domain, *node)) ready.insert(node);
  }
  const auto connected_with_all = [&](const api::ImexNode& node) {
    return std::all_of(ready.begin(), ready.end(), [&](const api::ImexNode* other) {
      return other == &node || (Sees(node, other->domain->index) && Sees(*other, node.domain->index));
    });
  };
  std::set<std::string> out;
  for (const Demand& demand : demands) {
    const api::ImexNode* node = FindNode(clique.nodes, demand.node);
    if (ready.contains(node) && connected_with_all(*node)) out.insert(demand.claim_uid);
  }
  return out;
}

}  // namespace cd::domain
