#include "src/domain/demand.h"

#include <map>
#include <utility>

#include "src/base/text.h"
#include "src/domain/acceptance.h"
#include "src/domain/gating.h"

namespace cd::domain {

using api::FabricState;
using api::Refusal;

namespace {

constexpr std::size_t kMaxRefusals = 1024;         // maxItems of the CRDs
constexpr std::size_t kMaxRefusalMessage = 2'000;  // below their maxLength

Refusal RefuseUnknown(const Demand& demand) {
  return Refuse(
      demand, "UnknownComputeDomain",
      "domainID: no ComputeDomain with UID " + demand.config.domain_id + " exists in namespace " + demand.ns +
          "; use the ResourceClaimTemplate that the ComputeDomain names, and delete pods and claims of a deleted ComputeDomain");
}

Refusal RefuseNamespace(const Demand& demand, const api::ObjectRef& owner) {
  return Refuse(demand, "OtherNamespace",
                "domainID: UID " + demand.config.domain_id + " is ComputeDomain " + owner.name + " of namespace " + owner.ns +
                    ", the claim is in namespace " + demand.ns +
                    "; a ComputeDomain serves its own namespace only: create one here");
}

Refusal RefuseMode(const Demand& demand, const ComputeDomainView& view) {
  return Refuse(demand, "AllocationModeMismatch",
                "allocationMode: the claim says " + api::ToString(demand.config.allocation_mode) + ", ComputeDomain " +
                    view.ref.name + " has spec.channel.allocationMode " + api::ToString(view.allocation_mode) +
                    "; use the ResourceClaimTemplate that the ComputeDomain names");
}

}  // namespace

Refusal Refuse(const Demand& demand, std::string reason, std::string message) {
  return {demand.node, demand.config.domain_id, std::move(reason), CutText(std::move(message), kMaxRefusalMessage)};
}

ComputeDomainView ViewOf(const api::ComputeDomain& cd) {
  ComputeDomainView view{cd.meta.Ref(),       cd.meta.deleting,    cd.allocation_mode, cd.fabric_policy,
                         cd.partition_policy, cd.status.partition, WhyNotAccepted(cd)};
  view.isolation = cd.isolation_mode;
  view.imex = cd.imex;
  view.gated = cd.gating.has_value();
  for (const api::Condition& condition : cd.status.conditions) {
    const bool of_this_spec = condition.observed_generation == cd.meta.generation;
    if (view.gated && of_this_spec && condition.reason == kGateTimedOut) view.gate_refusal = condition.message;
  }
  return view;
}

Judgement Judge(const Demand& demand, const KnownDomains& known) {
  const std::string& uid = demand.config.domain_id;
  if (known.deleted.contains(uid)) return {Verdict::kIgnore, {}};
  const auto verified = known.verified.find(uid);
  const auto cached = known.cached.find(uid);
  if (cached == known.cached.end()) {
    if (verified == known.verified.end()) return {Verdict::kLookUp, {}};
    // Live, yet not in the cache: its event is on the way and will bring us back.
    if (verified->second == Liveness::kLive) return {Verdict::kIgnore, {}};
    return {Verdict::kRefuse, RefuseUnknown(demand)};
  }
  const ComputeDomainView& view = cached->second;
  if (view.ref.ns != demand.ns) return {Verdict::kRefuse, RefuseNamespace(demand, view.ref)};
  if (view.deleting || (verified != known.verified.end() && verified->second != Liveness::kLive)) return {Verdict::kIgnore, {}};
  if (view.not_accepted) {
    return {Verdict::kRefuse,
            Refuse(demand, "NotAccepted", "ComputeDomain " + view.ref.name + " is not accepted: " + *view.not_accepted)};
  }
  if (view.allocation_mode != demand.config.allocation_mode) return {Verdict::kRefuse, RefuseMode(demand, view)};
  return {Verdict::kServe, {}};
}

Refusal RefuseNoChannel(const Demand& demand, const std::string& clique) {
  return Refuse(
      demand, "NoFreeChannel",
      "all channels of clique " + clique + " are leased to ComputeDomains; delete ComputeDomains that are no longer needed");
}

Refusal RefuseOtherPartition(const Demand& demand, const ComputeDomainView& view, const std::string& clique) {
  return Refuse(
      demand, "OtherPartition",
      "ComputeDomain " + view.ref.name + " has spec.partitionPolicy Single and its pods run in NVLink partition " +
          view.partition + ", but node " + demand.node + " is in partition " + clique +
          "; delete this pod and have it scheduled there (node label nvidia.com/gpu.clique), or use a ComputeDomain with "
          "partitionPolicy Any");
}

Refusal RefuseTimedOut(const Demand& demand, const ComputeDomainView& view) {
  return Refuse(demand, "GateTimedOut", "ComputeDomain " + view.ref.name + ": " + view.gate_refusal);
}

Refusal RefuseNoSlot(const Demand& demand, const std::string& clique, int node_slots) {
  return Refuse(demand, "NoFreeSlot",
                "node " + demand.node + " has no slot in the IMEX domain of clique " + clique + ": all " +
                    std::to_string(node_slots) +
                    " are taken; a slot is freed when a node is removed from the cluster and from the clique");
}

Refusal RefuseForeignChannels(const Demand& demand, const api::ImexNode& node) {
  std::string held;
  for (const api::NodeChannel& entry : node.status.channels) {
    held.append(held.empty() ? "" : ", ")
        .append(std::to_string(entry.channel))
        .append(" of ComputeDomain UID ")
        .append(entry.compute_domain_uid);
  }
  return Refuse(demand, "HoldsForeignChannels",
                "node " + demand.node + " still has processes of ComputeDomains that ended here (channel " + held +
                    "); it is admitted when they are gone: delete their pods or reboot the node");
}

namespace {

std::optional<Refusal> RefuseWithoutFabric(const Demand& demand, const api::ImexNode& node, api::FabricPolicy policy,
                                           const std::string& why) {
  if (policy == api::FabricPolicy::kRequired) {
    return Refuse(demand, "NoFabric",
                  "node " + demand.node + " has no GPU on a multi-node NVLink fabric" + why +
                      "; use the ResourceClaimTemplate that the ComputeDomain names, it selects nodes that have one");
  }
  if (api::NoFabric(node.status)) return std::nullopt;
  return Refuse(demand, "FabricUnknown",
                "whether node " + demand.node + " has multi-node NVLink is not known" + why +
                    ", so the pod is not started without a channel; repair the NVIDIA driver or drain the node");
}

}  // namespace

std::optional<Refusal> RefuseForNode(const Demand& demand, const api::ImexNode& node, api::FabricPolicy policy) {
  if (!node.reported) return std::nullopt;
  const std::string why = node.status.fabric_message.empty() ? "" : " (" + node.status.fabric_message + ")";
  switch (node.status.fabric) {
    case FabricState::kReady:
      return std::nullopt;
    case FabricState::kNone:
      return RefuseWithoutFabric(demand, node, policy, why);
    case FabricState::kForming:
      return Refuse(demand, "FabricForming", "node " + demand.node + " is registering with the NVLink fabric" + why + "; wait");
    case FabricState::kDegraded:
      return Refuse(
          demand, "FabricDegraded",
          "node " + demand.node + " is attached to the NVLink fabric, but not healthy" + why + "; repair or drain the node");
    case FabricState::kMixed:
      return Refuse(demand, "MixedCliques",
                    "GPUs of node " + demand.node + " are in different cliques" + why +
                        ", which is not supported; correct the NVLink partitions");
  }
  return std::nullopt;
}

std::vector<Refusal> Tidy(std::vector<Refusal> refusals) {
  // The first of a node and ComputeDomain stands.
  std::map<std::pair<std::string, std::string>, Refusal> by_key;
  for (Refusal& refusal : refusals) by_key.try_emplace({refusal.node, refusal.compute_domain_uid}, std::move(refusal));
  std::vector<Refusal> tidy;
  for (auto& [key, refusal] : by_key) {
    if (tidy.size() < kMaxRefusals) tidy.push_back(std::move(refusal));
  }
  return tidy;
}

}  // namespace cd::domain
