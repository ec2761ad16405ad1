// The order of the steps, the life of the object, and its members. Leases are in domain_step_leases.cc, claims and refusals in
// domain_step_demands.cc.
#include "src/controller/decide_domain.h"

#include <algorithm>
#include <utility>

#include "src/controller/domain_step.h"
#include "src/domain/isolation.h"
#include "src/domain/leases.h"
#include "src/domain/members.h"

namespace cd::controller {

using api::FabricState;
using api::ImexDomain;
using api::ObjectRef;
using domain::Liveness;
using domain::NodePtr;

namespace {

bool SameSpec(const ImexDomain& a, const ImexDomain& b) {
  return a.members == b.members && a.channels == b.channels && a.next_channel == b.next_channel && a.refusals == b.refusals &&
         a.meta.annotations == b.meta.annotations && a.meta.finalizers == b.meta.finalizers;
}

}  // namespace

DomainDecision DomainStep::Run() {
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

// A list counts only for the version it was made for: Draining must be older than the list, and nothing may have changed since.
const domain::Nodes* DomainStep::Looked() const {
  return in_.looked && in_.looked->version == domain::VersionOf(before_) ? &in_.looked->nodes : nullptr;
}

void DomainStep::AskForLook() {
  if (Looked() == nullptr) out_.look = true;
}

std::optional<Liveness> DomainStep::Verified(const std::string& uid) const {
  const auto it = in_.known.verified.find(uid);
  if (it == in_.known.verified.end()) return std::nullopt;
  return it->second;
}

bool DomainStep::SeemsLive(const ObjectRef& owner) const {
  const auto it = in_.known.cached.find(owner.uid);
  return it != in_.known.cached.end() && !it->second.deleting;
}

// First domain of the clique, or a lost one: nothing is assigned before all reports were read. False: not now. There is no
// domain before, so the draft is what the look says. The object comes first and the look after it: a look from before would not
// show what a domain gave that another leader created, and that was lost, in between.
bool DomainStep::Begin() {
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

void DomainStep::Create() {
  const auto& nodes = draft_.nodes;
  const bool lost = std::any_of(nodes.begin(), nodes.end(),
                                [&](const NodePtr& node) { return node->domain && node->domain->name == draft_.name; });
  const bool wanted = std::any_of(nodes.begin(), nodes.end(), [&](const NodePtr& node) {
    return domain::BelongsIn(draft_, *node) && node->status.fabric == FabricState::kReady;
  });
  // One that is lost comes back for its members, whatever has become of its owner; a new one is made only for an owner that
  // lives.
  const bool make = lost ? OwnerIsKnown() : wanted && OwnerLives();
  if (!make) return;
  out_.write = domain::Unmade(domain::NewDomain(draft_.name, in_.known.cached, in_.imex_config));
  out_.reasons.push_back("IMEXDomain is created; its members and channels are read from all IMEXNodes next");
}

// A shared domain needs none.
bool DomainStep::OwnerLives() {
  const std::string uid = api::IdentityOf(draft_.name).owner_uid;
  if (uid.empty()) return true;
  const auto owner = in_.known.cached.find(uid);
  if (owner == in_.known.cached.end()) return false;
  const auto liveness = Verified(uid);
  if (!liveness) out_.verify.push_back(owner->second.ref);
  return liveness == Liveness::kLive;
}

// What the owner wishes is the domain's for life, so a view that lags must not make it without, nor one that takes an owner which
// cannot be decoded for deleted. Of an owner that is gone a lost domain is made all the same: its members leave by it.
bool DomainStep::OwnerIsKnown() {
  const std::string uid = api::IdentityOf(draft_.name).owner_uid;
  if (uid.empty() || in_.known.cached.contains(uid)) return true;
  const auto liveness = Verified(uid);
  if (!liveness) out_.look_up.push_back({"", uid});  // the caller learns the object by it, if it can be decoded
  out_.owner_unreadable = liveness == Liveness::kLive;
  return liveness && *liveness != Liveness::kLive;
}

bool DomainStep::Exclusive() const {
  return !api::IdentityOf(draft_.name).owner_uid.empty();
}

// before_: the last member left in a version that is written already, hence before the look.
bool DomainStep::NobodyIsLeft() {
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

DomainDecision DomainStep::Remove() {
  out_.remove = true;
  out_.reasons.push_back("the last member is gone");
  return std::move(out_);
}

// draft_: the same as before, or what Begin rebuilt; members found in reports keep their slots. Who leaves, leaves by the look.
void DomainStep::Members() {
  domain::MembersDecision members = domain::DecideMembers(draft_, in_.gone_nodes, Looked());
  if (members.wants_look) AskForLook();
  for (const std::string& node : members.admitted) out_.reasons.push_back("node " + node + " gets a slot");
  for (const std::string& node : members.left) out_.reasons.push_back("node " + node + " has left, its slot is free");
  draft_.domain->members = std::move(members.members);
  for (api::DomainMember& member : draft_.domain->members) {
    const bool unseen = in_.unseen_nodes.contains(member.node);
    if (std::exchange(member.unseen, unseen) == unseen) continue;
    out_.reasons.push_back("node " + member.node +
                           (unseen ? " is READY by its own word only: the others do not see its daemon"
                                   : " is contradicted no more: the others see its daemon, or there are too few of them"));
  }
  const std::string freed = domain::FormatSlots(members.freed);
  if (freed.empty()) {
    draft_.domain->meta.annotations.erase(domain::kFreedSlotsAnnotation);
  } else {
    draft_.domain->meta.annotations[domain::kFreedSlotsAnnotation] = freed;
  }
}

DomainDecision DecideDomain(const DomainSnapshot& snapshot) {
  return DomainStep(snapshot).Run();
}

}  // namespace cd::controller
