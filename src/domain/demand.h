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
  std::string claim_uid = {};
  int slots = 1;            // of the node that it takes
  bool whole_node = false;  // these are all
};

// A ComputeDomain as far as a claim is concerned.
struct ComputeDomainView {
  api::ObjectRef ref;
  bool deleting = false;
  api::AllocationMode allocation_mode = api::AllocationMode::kSingle;
  api::FabricPolicy fabric_policy = api::FabricPolicy::kRequired;
  api::PartitionPolicy partition_policy = api::PartitionPolicy::kAny;
  std::string partition;                                   // Single: where its pods run, see ComputeDomainStatus
  std::optional<std::string> not_accepted = std::nullopt;  // why, see WhyNotAccepted
  api::IsolationMode isolation = api::IsolationMode::kChannel;
  std::optional<api::ImexConfig> imex = std::nullopt;
  bool gated = false;             // its pods are held until it has formed
  std::string gate_refusal = {};  // why they will not be let go any more; empty: they may be
};

// What is known of the gang that waits for, or has passed, a ComputeDomain's gate. See gating.h.
struct GateView {
  bool open = false;              // a claim in use is released
  std::set<std::string> release;  // UIDs of claims that are to be released now
};

ComputeDomainView ViewOf(const api::ComputeDomain& cd);

enum class Liveness { kLive, kDeleting, kGone };

// The ComputeDomains known to a decision. `cached` may be stale; `verified` was read live for this decision; `deleted` are UIDs
// whose deletion was seen, which is final.
struct KnownDomains {
  std::map<std::string, ComputeDomainView> cached;  // by UID
  std::map<std::string, Liveness> verified;         // by UID
  std::set<std::string> deleted;
  std::map<std::string, GateView> gates;  // by UID, of gated ones
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

api::Refusal Refuse(const Demand& demand, std::string reason, std::string message);

// Why a node gives this ComputeDomain no channel although the claim is in order.
api::Refusal RefuseNoChannel(const Demand& demand, const std::string& clique);
// partitionPolicy Single, and its pods run in another clique.
api::Refusal RefuseOtherPartition(const Demand& demand, const ComputeDomainView& view, const std::string& clique);
api::Refusal RefuseNoSlot(const Demand& demand, const std::string& clique, int node_slots);
// Gating with onTimeout Fail has run out.
api::Refusal RefuseTimedOut(const Demand& demand, const ComputeDomainView& view);
// nullopt: nothing about the node stands in the way of a ComputeDomain of that policy.
std::optional<api::Refusal> RefuseForNode(const Demand& demand, const api::ImexNode& node, api::FabricPolicy policy);
api::Refusal RefuseForeignChannels(const Demand& demand, const api::ImexNode& node);

// Sorted, one for each (node, ComputeDomain), at most as many as the CRDs admit.
std::vector<api::Refusal> Tidy(std::vector<api::Refusal> refusals);

}  // namespace cd::domain
