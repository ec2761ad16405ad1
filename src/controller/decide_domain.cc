#include "src/controller/decide_domain.h"

#include <algorithm>
#include <utility>

#include "src/domain/isolation.h"
#include "src/domain/leases.h"
#include "src/domain/members.h"
#include "src/domain/partition.h"
#include "src/domain/release.h"

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
    DrainMoved();
    Free();
    GrantAndRefuse();  // what was freed above is proved to be free
    LetGo();
    RefuseTimedOut();
    draft_.domain->refusals = domain::Tidy(std::move(refusals_));
    if (!out_.NeedsReads() && (!before_.domain || !SameSpec(*before_.domain, *draft_.domain))) out_.write = draft_.domain;
    return std::move(out_);
  }

 private:
  // A list counts only for the version it was made for: Draining must be older than the list, and nothing may have changed since.
  const domain::Nodes* Looked() const {
    return in_.looked && in_.looked->version == domain::VersionOf(before_) ? &in_.looked->nodes : nullptr;
  }

  void AskForLook() {
    if (Looked() == nullptr) out_.look = true;
  }

  // First domain of the clique, or a lost one: nothing is assigned before all reports were read. False: not now. There is no
  // domain before, so the draft is what the look says. The object comes first and the look after it: a look from before would not
  // show what a domain gave that another leader created, and that was lost, in between.
  bool Begin() {
    if (!before_.begun) {
      Create();
      return false;
    }
    if (Looked() == nullptr) {
      out_.look = true;
      return false;
    }
    std::vector<ObjectRef> known;
    for (const auto& [uid, view] : in_.known.cached) known.push_back(view.ref);
    draft_.domain = domain::Rebuild(*before_.begun, draft_, *Looked(), known);
    out_.reasons.push_back("IMEXDomain is made from " + std::to_string(draft_.domain->members.size()) + " assignments and " +
                           std::to_string(draft_.domain->channels.size()) + " channels found in reports");
    rebuilt_ = true;
    return true;
  }

  void Create() {
    const auto& nodes = draft_.nodes;
    const bool lost = std::any_of(nodes.begin(), nodes.end(),
                                  [&](const NodePtr& node) { return node->domain && node->domain->name == draft_.name; });
    const bool wanted = std::any_of(nodes.begin(), nodes.end(), [&](const NodePtr& node) {
      return domain::BelongsIn(draft_, *node) && node->status.fabric == FabricState::kReady;
    });
    if (!lost && (!wanted || !OwnerLives())) return;
    out_.write = domain::Unmade(domain::NewDomain(draft_.name, in_.known.cached, in_.imex_config));
    out_.reasons.push_back("IMEXDomain is created; its members and channels are read from all IMEXNodes next");
  }

  // A shared domain needs none.
  bool OwnerLives() {
    const std::string uid = api::IdentityOf(draft_.name).owner_uid;
    if (uid.empty()) return true;
    const auto owner = in_.known.cached.find(uid);
    if (owner == in_.known.cached.end()) return false;
    const auto liveness = Verified(uid);
    if (!liveness) out_.verify.push_back(owner->second.ref);
    return liveness == Liveness::kLive;
  }

  bool Exclusive() const { return !api::IdentityOf(draft_.name).owner_uid.empty(); }

  // before_: the last member left in a version that is written already, hence before the look.
  bool NobodyIsLeft() {
    if (!before_.domain || !before_.domain->members.empty()) return false;
    const auto needed_by = [&](const NodePtr& node) {
      // A clique keeps its shared domain while all its nodes are in exclusive ones.
      const bool belongs = Exclusive() ? domain::BelongsIn(before_, *node) : domain::ReportsClique(before_, *node);
      return belongs || domain::HoldsAnyHere(before_, *node) || (node->domain && node->domain->name == before_.name);
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
      const auto liveness = Verified(owner.uid);
      if (!liveness && owner.name.empty()) {
        out_.look_up.push_back({"", owner.uid});  // found in a report, and not in the cache
      } else if (!liveness) {
        out_.verify.push_back(owner);
      } else if (*liveness != Liveness::kLive && domain::Drain(*draft_.domain, owner.uid)) {
        out_.reasons.push_back("channel " + std::to_string(lease.channel) + " is drained: ComputeDomain " + ToString(owner) +
                               " is gone");
      }
    }
  }

  // partitionPolicy Single: this clique was given up, and no pod is here, or another one is chosen. Comes before another one is
  // chosen, see ChoosePartition.
  void DrainMoved() {
    const std::vector<ChannelLease> leases = draft_.domain->channels;
    for (const ChannelLease& lease : leases) {
      const std::string& uid = lease.compute_domain.uid;
      const auto view = in_.known.cached.find(uid);
      if (lease.state != LeaseState::kActive || view == in_.known.cached.end()) continue;
      const auto partition = domain::JudgePartition(view->second, draft_.domain->clique_id);
      if (partition == domain::PartitionVerdict::kServe) continue;
      const bool used =
          std::any_of(in_.demands.begin(), in_.demands.end(), [&](const Demand& d) { return d.config.domain_id == uid; });
      // Where another one is chosen already, only a rebuild can have made the lease Active again.
      if (used && partition == domain::PartitionVerdict::kChoose) continue;
      if (!Verified(uid)) {
        out_.verify.push_back(lease.compute_domain);  // the partition as it stands now comes with the answer
        continue;
      }
      if (!domain::Drain(*draft_.domain, uid)) continue;
      out_.reasons.push_back("channel " + std::to_string(lease.channel) + " is drained: ComputeDomain " +
                             ToString(lease.compute_domain) + " runs in another partition from now on");
    }
  }

  // With partitionPolicy Single an owner that lives may be drained, and come back before the number it had here is free. With
  // another policy somebody has drained it by hand.
  bool MayComeBack(const ChannelLease& lease) const {
    return lease.state == LeaseState::kDraining && SeemsLive(lease.compute_domain);
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

  const domain::GateView* GateOf(const std::string& uid) const {
    const auto it = in_.known.gates.find(uid);
    return it == in_.known.gates.end() ? nullptr : &it->second;
  }

  // draft_: a lease that was granted or revived above is held, or not, from its first version on.
  void LetGo() {
    for (ChannelLease& lease : draft_.domain->channels) {
      if (lease.state != LeaseState::kActive) continue;
      // Of a ComputeDomain that is not known nothing is changed: it is about to be drained, or to be known.
      if (!in_.known.cached.contains(lease.compute_domain.uid)) continue;
      const domain::GateView* gate = GateOf(lease.compute_domain.uid);
      std::vector<Demand> demands;
      std::set<std::string> in_use;
      for (const Demand& demand : in_.demands) {
        if (demand.config.domain_id != lease.compute_domain.uid || demand.ns != lease.compute_domain.ns) continue;
        demands.push_back(demand);
        in_use.insert(demand.claim_uid);
      }
      const api::ChannelLease* before = before_.domain ? api::FindLease(*before_.domain, lease.compute_domain.uid) : nullptr;
      // What a rebuilt or new lease says of itself is no release: of a gang that runs nothing is held back but who comes later.
      const domain::Release standing =
          before == nullptr ? domain::Release{} : domain::Release{lease.released, lease.released_claims};
      const auto connected = gate == nullptr ? std::set<std::string>() : domain::ConnectedClaims(draft_, demands);
      domain::Release release = domain::DecideRelease(standing, gate, in_use, connected);
      if (gate != nullptr && release.claims.size() > lease.released_claims.size())
        out_.reasons.push_back("pods of ComputeDomain " + ToString(lease.compute_domain) + " are let go");
      lease.released = release.all;
      lease.released_claims = std::move(release.claims);
    }
  }

  void RefuseTimedOut() {
    for (const Demand& demand : in_.demands) {
      const auto view = in_.known.cached.find(demand.config.domain_id);
      if (view == in_.known.cached.end() || view->second.gate_refusal.empty()) continue;
      const ChannelLease* lease = api::FindLease(*draft_.domain, demand.config.domain_id);
      const api::ImexNode* node = domain::FindNode(draft_.nodes, demand.node);
      const bool held = lease != nullptr && lease->state == LeaseState::kActive && !lease->Releases(demand.claim_uid);
      if (held && node != nullptr && ReadsThis(*node)) refusals_.push_back(domain::RefuseTimedOut(demand, view->second));
    }
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
    const domain::ComputeDomainView& view = in_.known.cached.at(demand.config.domain_id);
    if (domain::DomainNameFor(view, draft_.domain->clique_id) != draft_.name) {
      auto refusal = domain::RefuseInDomain(demand, view, node, *draft_.domain, domain::BelongsIn(draft_, node));
      // Time runs out wherever the node is.
      return refusal || view.gate_refusal.empty() ? refusal : domain::RefuseTimedOut(demand, view);
    }
    if (auto refusal = domain::RefuseExclusive(demand, view, node)) return refusal;
    const bool here = domain::BelongsIn(draft_, node) || api::FindMember(*draft_.domain, demand.node) != nullptr;
    if (!here) return std::nullopt;
    const auto partition = domain::JudgePartition(view, draft_.domain->clique_id);
    if (partition == domain::PartitionVerdict::kOther)
      return domain::RefuseOtherPartition(demand, view, draft_.domain->clique_id);
    if (partition == domain::PartitionVerdict::kChoose) return std::nullopt;
    const ObjectRef& owner = view.ref;
    if (!Verified(owner.uid)) {
      if (std::find(out_.verify.begin(), out_.verify.end(), owner) == out_.verify.end()) out_.verify.push_back(owner);
      return std::nullopt;
    }
    if (domain::Revive(*draft_.domain, owner.uid)) {
      out_.reasons.push_back("ComputeDomain " + ToString(owner) + " is back: its channel is drained no more");
      return std::nullopt;
    }
    if (const auto held = domain::HeldWithoutLease(draft_, owner.uid)) {
      domain::Grant(*draft_.domain, owner, *held);
      out_.reasons.push_back("ComputeDomain " + ToString(owner) + " gets channel " + std::to_string(*held) +
                             " again: nodes hold it, though its lease is lost");
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
  std::vector<api::Refusal> refusals_;
  bool rebuilt_ = false;
};

}  // namespace

DomainDecision DecideDomain(const DomainSnapshot& snapshot) {
  return DomainStep(snapshot).Run();
}

}  // namespace cd::controller
