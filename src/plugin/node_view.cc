#include "src/plugin/node_view.h"

#include <algorithm>

namespace cd::plugin {

namespace {

std::optional<api::Refusal> RefusalOf(const NodeView& view, const std::string& compute_domain_uid) {
  const api::Refusal* refusal = nullptr;
  if (view.domain) refusal = api::FindRefusal(view.domain->refusals, view.node, compute_domain_uid);
  if (refusal == nullptr && view.imex_node) refusal = api::FindRefusal(view.imex_node->refusals, view.node, compute_domain_uid);
  return refusal == nullptr ? std::nullopt : std::optional(*refusal);
}

// Why there is no domain to take a lease from; empty when there is one.
std::string NoDomain(const NodeView& view) {
  if (!view.imex_node) return "this node is not known to the controller yet (no IMEXNode)";
  if (!view.imex_node->domain) {
    return view.fabric_message.empty() ? "the controller has not made this node a member of an IMEX domain yet"
                                       : "this node has no usable NVLink fabric: " + view.fabric_message;
  }
  if (!view.domain || view.domain->meta.uid != view.imex_node->domain->uid) {
    return "IMEXDomain " + view.imex_node->domain->name + " is not there yet";
  }
  return "";
}

// On a node without fabric the controller's exemption takes the lease's place. A node that is in an IMEX domain, or is about to
// leave one, had a fabric a moment ago: that is no evidence of having none.
const api::Exemption* ExemptionFor(const NodeView& view, const std::string& uid) {
  if (!view.no_fabric || !view.imex_node || view.imex_node->domain) return nullptr;
  const auto& exemptions = view.imex_node->exemptions;
  const auto it =
      std::find_if(exemptions.begin(), exemptions.end(), [&](const api::Exemption& e) { return e.compute_domain.uid == uid; });
  return it == exemptions.end() ? nullptr : &*it;
}

Denied Deny(ErrorCode code, std::string message) {
  return {Error{code, std::move(message), std::nullopt}};
}

std::optional<Denied> WrongNamespace(const ChannelRequest& request, const api::ObjectRef& owner) {
  if (owner.ns == request.claim.ns) return std::nullopt;
  return Deny(ErrorCode::kInvalidArgument, "domainID: " + request.config.domain_id +
                                               " is a ComputeDomain of another namespace than \"" + request.claim.ns +
                                               "\"; use the ResourceClaimTemplate of a ComputeDomain in the pod's own namespace");
}

std::optional<Denied> PartOfNode(const ChannelRequest& request, const api::ObjectRef& owner) {
  if (request.whole_node) return std::nullopt;
  return Deny(ErrorCode::kInvalidArgument,
              "ComputeDomain " + ToString(owner) +
                  " has spec.isolationMode Domain, which needs all slots of the node; the claim has " +
                  std::to_string(request.slots) + ": use the ResourceClaimTemplate it names");
}

std::optional<Denied> WrongOwner(const ChannelRequest& request, const api::ChannelLease& lease, const api::ImexDomain& domain) {
  if (auto denied = WrongNamespace(request, lease.compute_domain)) return denied;
  // Shared domains serve ComputeDomains with isolationMode Channel alone, and those have allocationMode Single.
  if (request.config.allocation_mode != domain.allocation_mode) {
    return Deny(ErrorCode::kInvalidArgument, "allocationMode: " + api::ToString(request.config.allocation_mode) +
                                                 ", but ComputeDomain " + ToString(lease.compute_domain) +
                                                 " has spec.channel.allocationMode " + api::ToString(domain.allocation_mode) +
                                                 "; use the ResourceClaimTemplate it names");
  }
  if (domain.mode == api::DomainMode::kExclusive) return PartOfNode(request, lease.compute_domain);
  return std::nullopt;
}

AwaitsLease Held(const NodeView& view, const std::string& uid, const api::ObjectRef& compute_domain) {
  return {"the pods of ComputeDomain " + ToString(compute_domain) +
              " are held until it has formed (spec.gating), see its condition Formed",
          RefusalOf(view, uid), true};
}

// While processes hold channels of it the node stays in the domain it was in; what begins now could reach nobody there. Nothing
// is begun, so that pods which are tried again do not keep the node from leaving.
std::optional<AwaitsLease> Moved(const NodeView& view, const std::string& uid) {
  const api::ImexDomain& domain = *view.domain;
  if (!api::IsElsewhere(view.fabric, view.clique_ids, domain.clique_id)) return std::nullopt;
  const std::string where = view.clique_ids.size() == 1 ? "in " + view.clique_ids.front() : "in no single NVLink partition";
  return AwaitsLease{"this node's GPUs are " + where + " now, and its IMEX daemon stays in IMEXDomain " + domain.meta.name +
                         " until the pods that hold channels of it have ended: delete them, or run this pod elsewhere",
                     RefusalOf(view, uid), true};
}

// Who keeps the node from being moved to the claim's own IMEX domain; empty: nobody, or the claim shares the node.
std::string HeldByOthers(const NodeView& view, const ChannelRequest& request) {
  if (!request.whole_node) return "";
  std::string held;
  for (const api::NodeChannel& entry : view.imex_node->status.channels) {
    if (entry.compute_domain_uid == request.config.domain_id) continue;
    held.append(held.empty() ? "; the node is not free while processes hold " : ", ")
        .append("channel " + std::to_string(entry.channel) + " of the ComputeDomain with UID " + entry.compute_domain_uid);
  }
  return held;
}

// What the node still lacks for a lease that is there; empty: nothing.
std::string MissingOnNode(const NodeView& view) {
  const api::DomainAssignment& assigned = *view.imex_node->domain;
  const auto* member = FindMember(*view.domain, view.node);
  if (member == nullptr || member->index != assigned.index) {
    return "this node has no slot in IMEXDomain " + assigned.name + " yet";
  }
  if (api::UnderMaintenance(*view.imex_node)) return "the node's IMEX daemon is under maintenance";
  const api::NodeDaemon& daemon = view.daemon;
  if (daemon.state == api::DaemonState::kAbsent) return "no IMEX daemon runs on this node (DaemonSet compute-domain-daemon)";
  if (daemon.domain_uid != assigned.uid || daemon.index != assigned.index) {
    return "the IMEX daemon has not joined IMEXDomain " + assigned.name + " as index " + std::to_string(assigned.index) + " yet";
  }
  if (daemon.state != api::DaemonState::kReady)
    return "the IMEX daemon is not READY yet" + (daemon.message.empty() ? "" : ": " + daemon.message);
  if (member->unseen)
    return "the IMEX daemon says READY, but the other nodes' daemons do not see it, so that this pod could import from nobody: "
           "compare the nodes' driver versions, and check that they reach each other on the IMEX ports";
  return "";
}

}  // namespace

Judgement Judge(const NodeView& view, const ChannelRequest& request) {
  const std::string& uid = request.config.domain_id;
  if (const api::Exemption* exemption = ExemptionFor(view, uid)) {
    if (auto denied = WrongNamespace(request, exemption->compute_domain)) return *denied;
    if (auto denied = exemption->exclusive ? PartOfNode(request, exemption->compute_domain) : std::nullopt) return *denied;
    if (!exemption->Releases(request.claim.uid)) return Held(view, uid, exemption->compute_domain);
    return Granted{Grant{"", "", "", 0, exemption->compute_domain, false, exemption->exclusive}};
  }
  if (std::string missing = NoDomain(view); !missing.empty()) return AwaitsLease{std::move(missing), RefusalOf(view, uid)};

  const api::ImexDomain& domain = *view.domain;
  const auto* lease = FindLease(domain, uid);
  if (lease == nullptr) {
    return AwaitsLease{"the controller has not granted a channel of IMEXDomain " + domain.meta.name +
                           " to the ComputeDomain yet" + HeldByOthers(view, request),
                       RefusalOf(view, uid)};
  }
  if (auto denied = WrongOwner(request, *lease, domain)) return *denied;
  if (lease->state != api::LeaseState::kActive) {
    if (const auto refusal = RefusalOf(view, uid))
      return Deny(ErrorCode::kFailedPrecondition, refusal->reason + ": " + refusal->message);
    return Deny(ErrorCode::kFailedPrecondition,
                "ComputeDomain " + ToString(lease->compute_domain) +
                    " is being deleted, or has moved to another NVLink partition; delete its pods and "
                    "claims if it is, else see its status.partition");
  }
  if (!lease->Releases(request.claim.uid)) return Held(view, uid, lease->compute_domain);
  if (auto moved = Moved(view, uid)) return *std::move(moved);
  Grant grant{domain.meta.name,
              domain.meta.uid,
              domain.clique_id,
              lease->channel,
              lease->compute_domain,
              domain.allocation_mode == api::AllocationMode::kAll,
              domain.mode == api::DomainMode::kExclusive};
  std::string missing = MissingOnNode(view);
  if (!missing.empty()) return AwaitsNode{std::move(grant), std::move(missing)};
  return Granted{std::move(grant)};
}

Status StillGranted(const api::ImexDomain& domain, const Grant& grant) {
  const auto* lease = FindLease(domain, grant.compute_domain.uid);
  if (domain.meta.uid == grant.domain_uid && lease != nullptr && lease->channel == grant.channel &&
      lease->state == api::LeaseState::kActive) {
    return {};
  }
  return Fail(ErrorCode::kFailedPrecondition, "channel " + std::to_string(grant.channel) + " of IMEXDomain " + grant.domain +
                                                  " is no longer granted to ComputeDomain " + ToString(grant.compute_domain) +
                                                  "; if it still exists the pod is tried again");
}

}  // namespace cd::plugin
