#include "src/controller/decide_domain.h"

#include <algorithm>
#include <utility>

#include "src/domain/leases.h"
#include "src/domain/members.h"

namespace cd::controller {

using api::ChannelLease;
using api::FabricState;
using api::ImexDomain;
using api::LeaseState;
using api::ObjectRef;
using domain::Clique;
using domain::Demand;
using domain::Liveness;
using domain::NodePtr;
using domain::Verdict;

namespace {

bool SameSpec(const ImexDomain& a, const ImexDomain& b) {
  return a.members == b.members && a.channels == b.channels && a.next_channel == b.next_channel && a.refusals == b.refusals &&
         a.meta.annotations == b.meta.annotations && a.meta.finalizers == b.meta.finalizers;
}

// The draft of the next version, and the decision it grows into.
class DomainStep {
 public:
  explicit DomainStep(const DomainSnapshot& snapshot) : in_(snapshot), clique_(snapshot.clique) {}

  DomainDecision Run() {
    if (!clique_.domain && !Begin()) return std::move(out_);
    if (NobodyIsLeft()) return Remove();
    Members();
    DrainOrphans();
    Free();
    GrantAndRefuse();
    if (!out_.NeedsReads() && (!in_.clique.domain || !SameSpec(*in_.clique.domain, *clique_.domain))) out_.write = clique_.domain;
    return std::move(out_);
  }

 private:
  // A list counts only for the version it was made for: Draining must be older than the list, and nothing may have changed since.
  const domain::Nodes* Looked() const {
    const std::string version = in_.clique.domain ? in_.clique.domain->meta.resource_version : "";
    return in_.looked && in_.looked->version == version ? &in_.looked->nodes : nullptr;
  }

  void AskForLook() {
    if (Looked() == nullptr) out_.look = true;
  }

  // First domain of the clique, or a lost one: nothing is assigned before all reports were read. False: not now.
  bool Begin() {
    const bool wanted = std::any_of(clique_.nodes.begin(), clique_.nodes.end(), [&](const NodePtr& node) {
      return (node->domain && node->domain->name == clique_.name) ||
             (domain::ReportsClique(clique_, *node) && node->status.fabric == FabricState::kReady);
    });
    if (!wanted) return false;
    if (Looked() == nullptr) {
      out_.look = true;
      return false;
    }
    std::vector<ObjectRef> known;
    for (const auto& [uid, view] : in_.known.cached) known.push_back(view.ref);
    clique_.domain = domain::Rebuild(clique_.name, clique_, *Looked(), known);
    out_.reasons.push_back("IMEXDomain is created from " + std::to_string(clique_.domain->members.size()) + " assignments and " +
                           std::to_string(clique_.domain->channels.size()) + " channels found in reports");
    rebuilt_ = true;
    return true;
  }

  bool NobodyIsLeft() {
    if (!in_.clique.domain || !clique_.domain->members.empty()) return false;
    const auto needed_by = [&](const NodePtr& node) {
      return domain::ReportsClique(clique_, *node) || domain::HoldsAnyHere(clique_, *node) ||
             (node->domain && node->domain->name == clique_.name);
    };
    if (std::any_of(clique_.nodes.begin(), clique_.nodes.end(), needed_by)) return false;
    AskForLook();
    return Looked() != nullptr && std::none_of(Looked()->begin(), Looked()->end(), needed_by);
  }

  DomainDecision Remove() {
    out_.remove = true;
    out_.reasons.push_back("the last member is gone");
    return std::move(out_);
  }

  void Members() {
    domain::MembersDecision members = domain::DecideMembers(clique_, in_.gone_nodes, Looked());
    if (members.wants_look) AskForLook();
    for (const std::string& node : members.admitted) out_.reasons.push_back("node " + node + " gets a slot");
    for (const std::string& node : members.left) out_.reasons.push_back("node " + node + " has left, its slot is free");
    clique_.domain->members = std::move(members.members);
    const std::string freed = domain::FormatSlots(members.freed);
    if (freed.empty()) {
      clique_.domain->meta.annotations.erase(domain::kFreedSlotsAnnotation);
    } else {
      clique_.domain->meta.annotations[domain::kFreedSlotsAnnotation] = freed;
    }
  }

  std::optional<Liveness> Verified(const std::string& uid) const {
    const auto it = in_.known.verified.find(uid);
    if (it == in_.known.verified.end()) return std::nullopt;
    return it->second;
  }

  bool SeemsLive(const ObjectRef& owner) const {
    const auto it = in_.known.cached.find(owner.uid);
    return it != in_.known.cached.end() && !it->second.deleting;
  }

  void DrainOrphans() {
    const std::vector<ChannelLease> leases = clique_.domain->channels;
    for (const ChannelLease& lease : leases) {
      const ObjectRef& owner = lease.compute_domain;
      if (lease.state != LeaseState::kActive || (SeemsLive(owner) && !rebuilt_)) continue;
      const auto liveness = owner.name.empty() ? Liveness::kGone : Verified(owner.uid);
      if (!liveness) {
        out_.verify.push_back(owner);
      } else if (*liveness != Liveness::kLive && domain::Drain(*clique_.domain, owner.uid)) {
        out_.reasons.push_back("channel " + std::to_string(lease.channel) + " is drained: ComputeDomain " + owner.ns + "/" +
                               owner.name + " is gone");
      }
    }
  }

  void Free() {
    if (!in_.clique.domain || !domain::WorthLooking(in_.clique)) return;
    if (Looked() == nullptr) return AskForLook();
    const std::vector<int> free = domain::FreeableChannels(in_.clique, *Looked());
    domain::FreeChannels(*clique_.domain, free);
    for (int channel : free) out_.reasons.push_back("channel " + std::to_string(channel) + " is free: no node holds it");
  }

  void GrantAndRefuse() {
    std::vector<api::Refusal> refusals;
    for (const Demand& demand : in_.demands) {
      const api::ImexNode* node = domain::FindNode(clique_.nodes, demand.node);
      if (node == nullptr) continue;
      // A ComputeDomain that has or had a lease here was in order; its pods are served or run out.
      if (domain::FindLease(*clique_.domain, demand.config.domain_id) != nullptr) continue;
      std::optional<api::Refusal> refusal = Serve(demand, *node);
      // Refusals for a node that is not assigned here stand in its IMEXNode: its plugin does not read this object.
      const bool reads_this = in_.clique.domain && node->domain && node->domain->uid == in_.clique.domain->meta.uid;
      if (refusal && reads_this) refusals.push_back(std::move(*refusal));
    }
    clique_.domain->refusals = domain::Tidy(std::move(refusals));
  }

  std::optional<api::Refusal> Serve(const Demand& demand, const api::ImexNode& node) {
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
    const bool here = domain::ReportsClique(clique_, node) || domain::FindMember(*clique_.domain, demand.node) != nullptr;
    if (!here) return std::nullopt;
    const ObjectRef& owner = in_.known.cached.at(demand.config.domain_id).ref;
    if (!Verified(owner.uid)) {
      if (std::find(out_.verify.begin(), out_.verify.end(), owner) == out_.verify.end()) out_.verify.push_back(owner);
      return std::nullopt;
    }
    const auto channel = domain::NextFreeChannel(*clique_.domain, domain::ListedChannels(clique_));
    if (!channel) return domain::RefuseNoChannel(demand, clique_.name);
    domain::Grant(*clique_.domain, owner, *channel);
    out_.reasons.push_back("ComputeDomain " + owner.ns + "/" + owner.name + " gets channel " + std::to_string(*channel));
    return std::nullopt;
  }

  std::optional<api::Refusal> KeepOrLookUp(const Demand& demand, const api::ImexNode& node) {
    // An unassigned node's refusals are DecideNode's business, and so are its look-ups.
    const bool reads_this = in_.clique.domain && node.domain && node.domain->uid == in_.clique.domain->meta.uid;
    if (!reads_this) return std::nullopt;
    for (const api::Refusal& refusal : in_.clique.domain->refusals) {
      if (refusal.node == demand.node && refusal.compute_domain_uid == demand.config.domain_id) return refusal;
    }
    out_.look_up.push_back({demand.ns, demand.config.domain_id});
    return std::nullopt;
  }

  const DomainSnapshot& in_;
  Clique clique_;
  DomainDecision out_;
  bool rebuilt_ = false;
};

}  // namespace

DomainDecision DecideDomain(const DomainSnapshot& snapshot) {
  return DomainStep(snapshot).Run();
}

}  // namespace cd::controller
