// Channels of the domain: drained, freed, given, and let go by the gate.
#include <algorithm>
#include <utility>

#include "src/controller/domain_step.h"
#include "src/domain/leases.h"
#include "src/domain/partition.h"
#include "src/domain/release.h"

namespace cd::controller {

using api::ChannelLease;
using api::LeaseState;
using api::ObjectRef;
using domain::Demand;
using domain::Liveness;

// draft_: rebuilt leases are drained in the same step. Draining only withholds, so it needs no look.
void DomainStep::DrainOrphans() {
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
void DomainStep::DrainMoved() {
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
bool DomainStep::MayComeBack(const ChannelLease& lease) const {
  return lease.state == LeaseState::kDraining && SeemsLive(lease.compute_domain);
}

// before_: a lease drained in this step is newer than the look, and so is a member's leaving; both free nothing until they are
// written. A domain that was only now rebuilt has nothing to free.
void DomainStep::Free() {
  if (!before_.domain || !domain::WorthLooking(before_)) return;
  if (Looked() == nullptr) return AskForLook();
  const std::vector<int> free = domain::FreeableChannels(before_, *Looked());
  domain::FreeChannels(*draft_.domain, free);
  for (int channel : free) out_.reasons.push_back("channel " + std::to_string(channel) + " is free: no node holds it");
}

// draft_: two demands of one step see each other's lease, and numbers freed above may be given.
std::optional<api::Refusal> DomainStep::GiveChannel(const Demand& demand, const ObjectRef& owner) {
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

const domain::GateView* DomainStep::GateOf(const std::string& uid) const {
  const auto it = in_.known.gates.find(uid);
  return it == in_.known.gates.end() ? nullptr : &it->second;
}

// draft_: a lease that was granted or revived above is held, or not, from its first version on.
void DomainStep::LetGo() {
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

}  // namespace cd::controller
