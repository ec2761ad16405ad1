// Which claims of a gated ComputeDomain are let go, as it stands in a lease or an exemption. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "src/domain/clique.h"
#include "src/domain/demand.h"

namespace cd::domain {

// `released` and `released_claims` of a ChannelLease or Exemption.
struct Release {
  bool all = false;
  std::vector<std::string> claims;  // sorted
  bool operator==(const Release&) const = default;
};

// `gate`: nullptr where there is no gating. `in_use`: UIDs of the ComputeDomain's claims that this lease or exemption serves.
// `connected`: those of them that may join a gang that has been let go. A claim that ended is forgotten only with the next
// change, or with the last one: no write for every pod that ends.
Release DecideRelease(const Release& standing, const GateView* gate, const std::set<std::string>& in_use,
                      const std::set<std::string>& connected);

// UIDs of those of `demands` (of one ComputeDomain, in this clique) whose node is READY and connected, both ways, with every
// READY node of the others. A node that is not READY keeps nobody waiting.
std::set<std::string> ConnectedClaims(const Clique& clique, const std::vector<Demand>& demands);

}  // namespace cd::domain
