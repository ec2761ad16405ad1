// What the claims on the clique's nodes ask for: who is served, who is refused, and why.
#include <algorithm>
#include <utility>

#include "src/controller/domain_step.h"
#include "src/domain/isolation.h"
#include "src/domain/partition.h"

namespace cd::controller {

using api::ChannelLease;
using api::LeaseState;
using domain::Demand;
using domain::Verdict;

void DomainStep::GrantAndRefuse() {
  for (const Demand& demand : in_.demands) {
    const api::ImexNode* node = domain::FindNode(draft_.nodes, demand.node);
    if (node == nullptr) continue;
    // A ComputeDomain that has or had a lease here was in order; its pods are served or run out.
    const ChannelLease* lease = api::FindLease(*draft_.domain, demand.config.domain_id);
    if (lease != nullptr && !MayComeBack(*lease)) continue;
    std::optional<api::Refusal> refusal = Serve(demand, *node);
    if (refusal && ReadsThis(*node)) refusals_.push_back(std::move(*refusal));
  }
}

std::optional<api::Refusal> DomainStep::Serve(const Demand& demand, const api::ImexNode& node) {
  const domain::Judgement judgement = domain::Judge(demand, in_.known);
  switch (judgement.verdict) {
    case Verdict::kIgnore:
      return std::nullopt;
    case Verdict::kRefuse:
      return judgement.refusal;
    case Verdict::kLookUp:
      return KeepOrLookUp(demand, node);
    case Verdict::kServe:
      break;
  }
  return ServeHere(demand, node, in_.known.cached.at(demand.config.domain_id));
}

// The claim is in order; is this the domain and the partition for it?
std::optional<api::Refusal> DomainStep::ServeHere(const Demand& demand, const api::ImexNode& node,
                                                  const domain::ComputeDomainView& view) {
  if (domain::DomainNameFor(view, draft_.domain->clique_id) != draft_.name) {
    auto refusal = domain::RefuseInDomain(demand, view, node, *draft_.domain, domain::BelongsIn(draft_, node));
    // Time runs out wherever the node is.
    return refusal || view.gate_refusal.empty() ? refusal : domain::RefuseTimedOut(demand, view);
  }
  if (auto refusal = domain::RefuseExclusive(demand, view, node)) return refusal;
  const bool here = domain::BelongsIn(draft_, node) || api::FindMember(*draft_.domain, demand.node) != nullptr;
  if (!here) return std::nullopt;
  const auto partition = domain::JudgePartition(view, draft_.domain->clique_id);
  if (partition == domain::PartitionVerdict::kOther) return domain::RefuseOtherPartition(demand, view, draft_.domain->clique_id);
  if (partition == domain::PartitionVerdict::kChoose) return std::nullopt;
  return GiveChannel(demand, view.ref);
}

std::optional<api::Refusal> DomainStep::KeepOrLookUp(const Demand& demand, const api::ImexNode& node) {
  if (!ReadsThis(node)) return std::nullopt;
  // What is kept is what stands there.
  const api::Refusal* standing = api::FindRefusal(before_.domain->refusals, demand.node, demand.config.domain_id);
  if (standing != nullptr) return *standing;
  out_.look_up.push_back({demand.ns, demand.config.domain_id});
  return std::nullopt;
}

void DomainStep::RefuseTimedOut() {
  for (const Demand& demand : in_.demands) {
    const auto view = in_.known.cached.find(demand.config.domain_id);
    if (view == in_.known.cached.end() || view->second.gate_refusal.empty()) continue;
    const ChannelLease* lease = api::FindLease(*draft_.domain, demand.config.domain_id);
    const api::ImexNode* node = domain::FindNode(draft_.nodes, demand.node);
    const bool held = lease != nullptr && lease->state == LeaseState::kActive && !lease->Releases(demand.claim_uid);
    if (held && node != nullptr && ReadsThis(*node)) refusals_.push_back(domain::RefuseTimedOut(demand, view->second));
  }
}

// before_: a node is assigned to the domain that exists, not to the one being created. The plugin of a node that is not
// assigned here does not read this object: its refusals and look-ups are DecideNode's business.
bool DomainStep::ReadsThis(const api::ImexNode& node) const {
  return before_.domain && node.domain && node.domain->uid == before_.domain->meta.uid;
}

}  // namespace cd::controller
