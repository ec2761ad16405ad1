// What the controller knows of one IMEX domain of a clique when it decides: the IMEXDomain, its nodes, and who holds which
// channel. Every clique has a shared domain; a ComputeDomain with isolationMode Domain has one of its own in each clique it runs
// in.
//
// Pure. The same functions serve the cached view (may be stale, proposes) and a quorum list of IMEXNodes (decides).
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/api/imex_domain.h"
#include "src/api/imex_node.h"

namespace cd::domain {

using NodePtr = std::shared_ptr<const api::ImexNode>;
using Nodes = std::vector<NodePtr>;  // sorted by name, each name once

struct Clique {
  std::string name;  // the IMEXDomain's: `<clusterUUID>.<cliqueID>`, for an exclusive one `<owner>.` before it
  std::optional<api::ImexDomain> domain;    // absent: none yet, lost, or not made yet
  std::optional<api::ImexDomain> begun;     // stands in its place until the domain is made, api::IsMade
  Nodes nodes;                              // all that report this clique, are members, are assigned here, or list a channel here
  std::set<std::string> other_domains;      // UIDs of all other IMEXDomains
  std::set<std::string> members_elsewhere;  // nodes that are members of another IMEXDomain
  std::set<std::string> wanted_elsewhere;   // nodes of the clique that belong in another of its IMEXDomains, see WantedDomain
};

// resourceVersion of what stands in the API under the clique's name; empty: nothing.
std::string VersionOf(const Clique& clique);
const api::ImexNode* FindNode(const Nodes& nodes, const std::string& name);

// True when the node reports this clique and no other.
bool ReportsClique(const Clique& clique, const api::ImexNode& node);
// True when it does, and belongs in this IMEX domain of the clique.
bool BelongsIn(const Clique& clique, const api::ImexNode& node);
// True when an entry of the node's report is a channel of this clique's IMEX domain. The name decides: the daemons of a lost and
// rebuilt domain are the same ones, and what the node's GPUs have become since says nothing of its processes. An entry without
// name counts where the node is, unless another IMEXDomain has its UID.
bool HeldHere(const Clique& clique, const api::ImexNode& node, const api::NodeChannel& entry);
bool HoldsAnyHere(const Clique& clique, const api::ImexNode& node);
// True when the node's daemon runs in this clique's IMEX domain, or is told to. Where the name is not known, see HeldHere.
bool DaemonIsHere(const Clique& clique, const api::ImexNode& node);
// True when the node lists a channel that no lease of this domain gives to that ComputeDomain. Such a node is admitted to no
// domain until its report is clean, since its processes might meet those of the number's next owner.
bool HoldsUngranted(const Clique& clique, const api::ImexNode& node);
// True when the node lists a channel of this domain that a lease gives to that ComputeDomain, whatever else it lists.
bool HoldsGranted(const Clique& clique, const api::ImexNode& node);
// Channel numbers of this domain that stand in any report of `clique.nodes`.
std::set<int> ListedChannels(const Clique& clique);

// Names of nodes that may hold `channel`: those that list it, and members of which nothing is known because their IMEXNode is
// absent or has no report yet. `nodes` may be newer than clique.nodes.
std::vector<std::string> PossibleHolders(const Clique& clique, const Nodes& nodes, int channel);

}  // namespace cd::domain
