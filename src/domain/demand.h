// What an allocated claim asks of the driver, and whether it may have it (rule R2). The texts of all refusals stand here.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/api/compute_domain.h"
#include "src/api/imex_node.h"
#include "src/api/resource_claim.h"

namespace cd::domain {

// An allocated and reserved claim with a valid channel config.
struct Demand {
  std::string node;
  std::string ns;     // of the claim
  std::string claim;  // name
  api::ChannelConfig config;
};

// A ComputeDomain as far as a claim is concerned.
struct ComputeDomainView {
  api::ObjectRef ref;
  bool deleting = false;
  api::AllocationMode allocation_mode = api::AllocationMode::kSingle;
  std::optional<std::string> not_accepted;  // why, see WhyNotAccepted
};

ComputeDomainView ViewOf(const api::ComputeDomain& cd);

enum class Liveness { kLive, kDeleting, kGone };

// The ComputeDomains known to a decision. `cached` may be stale; `verified` was read live for this decision; `deleted` are UIDs
// whose deletion was seen, which is final.
struct KnownDomains {
  std::map<std::string, ComputeDomainView> cached;  // by UID
  std::map<std::string, Liveness> verified;         // by UID
  std::set<std::string> deleted;
};

enum class Verdict {
  kServe,   // a lease may be granted after a live check
  kRefuse,  // see refusal
  kLookUp,  // no ComputeDomain of that UID is known: read the claim's namespace live, then judge again
  kIgnore,  // its ComputeDomain was deleted: nothing to grant, and who still runs is not to be disturbed
};

struct Judgement {
  Verdict verdict = Verdict::kServe;
  api::Refusal refusal;
};

Judgement Judge(const Demand& demand, const KnownDomains& known);

// Why a node gives this ComputeDomain no channel although the claim is in order.
api::Refusal RefuseNoChannel(const Demand& demand, const std::string& clique);
api::Refusal RefuseNoSlot(const Demand& demand, const std::string& clique, int node_slots);
// nullopt: nothing about the node stands in the way.
std::optional<api::Refusal> RefuseForNode(const Demand& demand, const api::ImexNode& node);
api::Refusal RefuseForeignChannels(const Demand& demand, const api::ImexNode& node);

// Sorted, one for each (node, ComputeDomain), at most as many as the CRDs admit.
std::vector<api::Refusal> Tidy(std::vector<api::Refusal> refusals);

}  // namespace cd::domain
