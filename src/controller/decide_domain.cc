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

// Two views of the clique:
//   before_  as it stands in the API, the version that a look belongs to and that the write carries as its precondition. What is
//            taken away (a slot, a channel, the domain) is judged by it: only what stood there when the list began is proved by
//            it.
//   draft_   the next version as it grows. What is given (a slot, a channel) is judged by it, so that one step gives nothing
//   twice.
// They have the same nodes and differ in the domain only.
class DomainStep {
 public:
  explicit DomainStep(const DomainSnapshot& snapshot) : in_(snapshot), before_(snapshot.clique), draft_(snapshot.clique) {}

  DomainDecision Run() {
    if (!before_.domain && !Begin()) return std::move(out_);
    if (NobodyIsLeft()) return Remove();
    Members();
    DrainOrphans();
    Free();
    GrantAndRefuse();  // last: what was freed above is proved to be free
    if (!out_.NeedsReads() && (!before_.domain || !SameSpec(*before_.domain, *draft_.domain))) out_.write = draft_.domain;
    return std::move(out_);
  }

 private:
  // A list counts only for the version it was made for: Draining must be older than the list, and nothing may have changed since.
  const domain::Nodes* Looked() const {
    const std::string version = before_.domain ? before_.domain->meta.resource_version : "";
    return in_.looked && in_.looked->version == version ? &in_.looked->nodes : nullptr;
  }

  void AskForLook() {
    if (Looked() == nullptr) out_.look = true;
  }

  // First domain of the clique, or a lost one: nothing is assigned before all reports were read. False: not now. There is no
  // domain before, so the draft is what the look says.
  bool Begin() {
    const bool wanted = std::any_of(draft_.nodes.begin(), draft_.nodes.end(), [&](const NodePtr& node) {
      return (node->domain && node->domain->name == draft_.name) ||
             (domain::ReportsClique(draft_, *node) && node->status.fabric == FabricState::kReady);
    });
    if (!wanted) return false;
    if (Looked() == nullptr) {
      out_.look = true;
      return false;
    }
    std::vector<ObjectRef> known;
    for (const auto& [uid, view] : in_.known.cached) known.push_back(view.ref);
    draft_.domain = domain::Rebuild(draft_.name, draft_, *Looked(), known);
    out_.reasons.push_back("IMEXDomain is created from " + std::to_string(draft_.domain->members.size()) + " assignments and " +
                           std::to_string(draft_.domain->channels.size()) + " channels found in reports");
    rebuilt_ = true;
    return true;
  }

  // before_: the last member left in a version that is written already, hence before the look.
  bool NobodyIsLeft() {
    if (!before_.domain || !before_.domain->members.empty()) return false;
    const auto needed_by = [&](const NodePtr& node) {
      return domain::ReportsClique(before_, *node) || domain::HoldsAnyHere(before_, *node) ||
             (node->domain && node->domain->name == before_.name);
    };
    if (std::any_of(before_.nodes.begin(), before_.nodes.end(), needed_by)) return false;
    AskForLook();
    return Looked() != nullptr && std::none_of(Looked()->begin(), Looked()->end(), needed_by);
  }

  DomainDecision Remove() {
    out_.remove = true;
    out_.reasons.push_back("the last member is gone");
    return std::move(out_);
  }

  // draft_: the same as before, or what Begin rebuilt; members found in reports keep their slots. Who leaves, leaves by the look.
  void Members() {
    domain::MembersDecision members = domain::DecideMembers(draft_, in_.gone_nodes, Looked());
    if (members.wants_look) AskForLook();
    for (const std::string& node : members.admitted) out_.reasons.push_back("node " + node + " gets a slot");
    for (const std::string& node : members.left) out_.reasons.push_back("node " + node + " has left, its slot is free");
    draft_.domain->members = std::move(members.members);
    const std::string freed = domain::FormatSlots(members.freed);
    if (freed.empty()) {
      draft_.domain->meta.annotations.erase(domain::kFreedSlotsAnnotation);
    } else {
      draft_.domain->meta.annotations[domain::kFreedSlotsAnnotation] = freed;
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

  // draft_: rebuilt leases are drained in the same step. Draining only withholds, so it needs no look.
  void DrainOrphans() {
    const std::vector<ChannelLease> leases = draft_.domain->channels;
    for (const ChannelLease& lease : leases) {
      const ObjectRef& owner = lease.compute_domain;
      if (lease.state != LeaseState::kActive || (SeemsLive(owner) && !rebuilt_)) continue;
      const auto liveness = owner.name.empty() ? Liveness::kGone : Verified(owner.uid);
      if (!liveness) {
        out_.verify.push_back(owner);
      } else if (*liveness != Liveness::kLive && domain::Drain(*draft_.domain, owner.uid)) {
        out_.reasons.push_back("channel " + std::to_string(lease.channel) + " is drained: ComputeDomain " + ToString(owner) +
                               " is gone");
      }
    }
  }

  // before_: a lease drained in this step is newer than the look, and so is a member's leaving; both free nothing until they are
  // written. A domain that was only now rebuilt has nothing to free.
  void Free() {
    if (!before_.domain || !domain::WorthLooking(before_)) return;
    if (Looked() == nullptr) return AskForLook();
    const std::vector<int> free = domain::FreeableChannels(before_, *Looked());
    domain::FreeChannels(*draft_.domain, free);
    for (int channel : free) out_.reasons.push_back("channel " + std::to_string(channel) + " is free: no node holds it");
  }

  // before_: a node is assigned to the domain that exists, not to the one being created. The plugin of a node that is not
  // assigned here does not read this object: its refusals and look-ups are DecideNode's business.
  bool ReadsThis(const api::ImexNode& node) const {
    return before_.domain && node.domain && node.domain->uid == before_.domain->meta.uid;
  }

  // draft_: two demands of one step see each other's lease, and numbers freed above may be given.
  void GrantAndRefuse() {
    std::vector<api::Refusal> refusals;
    for (const Demand& demand : in_.demands) {
      const api::ImexNode* node = domain::FindNode(draft_.nodes, demand.node);
      if (node == nullptr) continue;
      // A ComputeDomain that has or had a lease here was in order; its pods are served or run out.
      if (api::FindLease(*draft_.domain, demand.config.domain_id) != nullptr) continue;
      std::optional<api::Refusal> refusal = Serve(demand, *node);
      if (refusal && ReadsThis(*node)) refusals.push_back(std::move(*refusal));
    }
    draft_.domain->refusals = domain::Tidy(std::move(refusals));
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
    const bool here = domain::ReportsClique(draft_, node) || api::FindMember(*draft_.domain, demand.node) != nullptr;
    if (!here) return std::nullopt;
    const ObjectRef& owner = in_.known.cached.at(demand.config.domain_id).ref;
    if (!Verified(owner.uid)) {
      if (std::find(out_.verify.begin(), out_.verify.end(), owner) == out_.verify.end()) out_.verify.push_back(owner);
      return std::nullopt;
    }
    const auto channel = domain::NextFreeChannel(*draft_.domain, domain::ListedChannels(draft_));
    if (!channel) return domain::RefuseNoChannel(demand, draft_.name);
    domain::Grant(*draft_.domain, owner, *channel);
    out_.reasons.push_back("ComputeDomain " + ToString(owner) + " gets channel " + std::to_string(*channel));
    return std::nullopt;
  }

  std::optional<api::Refusal> KeepOrLookUp(const Demand& demand, const api::ImexNode& node) {
    if (!ReadsThis(node)) return std::nullopt;
    // What is kept is what stands there.
    const api::Refusal* standing = api::FindRefusal(before_.domain->refusals, demand.node, demand.config.domain_id);
    if (standing != nullptr) return *standing;
    out_.look_up.push_back({demand.ns, demand.config.domain_id});
    return std::nullopt;
  }

  const DomainSnapshot& in_;
  const Clique& before_;
  Clique draft_;
  DomainDecision out_;
  bool rebuilt_ = false;
};

}  // namespace

DomainDecision DecideDomain(const DomainSnapshot& snapshot) {
  return DomainStep(snapshot).Run();
}

}  // namespace cd::controller
