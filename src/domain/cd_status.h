// A ComputeDomain's status from what its nodes report. Spare slots of an IMEX domain never count: only nodes that have a claim
// do.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/api/compute_domain.h"
#include "src/domain/clique.h"

namespace cd::domain {

using DomainPtr = std::shared_ptr<const api::ImexDomain>;

struct StatusInput {
  const api::ComputeDomain& cd;
  std::optional<std::string> not_accepted;       // see WhyNotAccepted
  std::optional<std::string> template_conflict;  // whose template stands in the way
  std::vector<std::string> nodes;                // with an allocated and reserved claim of this ComputeDomain; sorted, unique
  Nodes reports;                                 // their IMEXNodes, as far as they exist
  std::map<std::string, DomainPtr> domains;      // by name: those that lease to it and those its nodes are in
  std::string now;                               // RFC 3339, for lastTransitionTime
  std::optional<std::string> template_refused = std::nullopt;   // why the API server does not let the template be made
  std::optional<std::string> finalizer_refused = std::nullopt;  // why it does not let the ComputeDomain have our finalizer
  std::optional<api::Condition> formed = std::nullopt;          // gating: what the gate says, see DecideGate
};

// How far the nodes of a ComputeDomain are.
struct Formation {
  std::size_t nodes = 0;
  std::string missing;  // for all to be ready and connected; empty: nothing
};
Formation FormationOf(const StatusInput& input);

// Times of conditions whose status did not change are kept from cd.status.
api::ComputeDomainStatus Summarize(const StatusInput& input);

// How long a status may wait before it is written, so that what changes together is written together.
enum class Urgency {
  kNothing,  // nothing differs
  kAtOnce,   // acceptance: the user looks at it right after creation; the partition: pods wait for it
  kSoon,     // more nodes, more ready: others follow within moments
  kLater,    // fewer nodes: pods end one after the other
};
Urgency UrgencyOf(const api::ComputeDomainStatus& written, const api::ComputeDomainStatus& wanted);

// True when the node is a member, and its daemon is READY in this domain at its index. A node whose GPUs have moved to another
// clique under held channels is not: what it exports nobody here can reach.
bool IsReadyIn(const api::ImexDomain& domain, const api::ImexNode& node);
// True when the node can start containers of the lease's owner: it is ready, and the others do not contradict (unseen.h).
bool ServesNow(const api::ImexDomain& domain, const api::ImexNode& node);

}  // namespace cd::domain
