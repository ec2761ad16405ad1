// One step of a clique's IMEXDomain: snapshot in, what to read or write out. No I/O, no clock: tests and the simulation drive it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/domain/clique.h"
#include "src/domain/demand.h"

namespace cd::controller {

// A quorum list of all IMEXNodes.
struct Look {
  std::string version;  // resourceVersion of the IMEXDomain that was known when the list began
  domain::Nodes nodes;
};

struct DomainSnapshot {
  domain::Clique clique;
  std::vector<domain::Demand> demands;  // of the clique's nodes
  domain::KnownDomains known;           // at least those of demands, leases and reports
  std::set<std::string> gone_nodes;     // IMEXNode absent, and Node absent by live reads for long enough
  std::set<std::string> unseen_nodes;   // domain::UnseenMembers of clique, for long enough
  std::optional<Look> looked;
  api::ImexConfig imex_config;  // the cluster's, for a domain to be created
};

// A ComputeDomain whose name is unknown.
struct LookUp {
  std::string ns;
  std::string uid;
  auto operator<=>(const LookUp&) const = default;
};

// Reads come first: when any of verify, look_up, look is set, the caller reads, adds the answers to the snapshot and decides
// again.
struct DomainDecision {
  std::vector<api::ObjectRef> verify;    // one live GET each
  std::vector<LookUp> look_up;           // one live LIST of the namespace each; without one, of all
  bool look = false;                     // one quorum LIST of IMEXNodes
  std::optional<api::ImexDomain> write;  // create when it has no resourceVersion, else update with it as precondition
  bool remove = false;                   // nobody is in the clique any more
  bool owner_unreadable = false;         // the lost domain's owner lives and cannot be decoded: nothing will tell when it can
  std::vector<std::string> reasons;      // what changed and why, for the log

  bool NeedsReads() const { return look || !verify.empty() || !look_up.empty(); }
};

DomainDecision DecideDomain(const DomainSnapshot& snapshot);

}  // namespace cd::controller
