#include "src/controller/decide_node.h"

#include <algorithm>
#include <utility>

#include "src/domain/cd_status.h"
#include "src/domain/imex_options.h"
#include "src/domain/isolation.h"
#include "src/domain/maintenance.h"
#include "src/domain/members.h"

namespace cd::controller {

using api::ChannelLease;
using api::DomainAssignment;
using api::ImexNode;
using api::LeaseState;
using api::Refusal;
using domain::Demand;
using domain::Verdict;
using domain::WakeState;

namespace {

constexpr Duration kLookForTurn{30'000};

std::optional<DomainAssignment> Assignment(const NodeSnapshot& in) {
  // Its IMEXDomain was lost: the rebuilt one takes members and indexes from these assignments.
  if (in.node->domain && (!in.clique || !in.clique->domain)) return in.node->domain;
  return in.clique ? domain::DesiredAssignment(*in.clique, *in.node) : std::nullopt;
}

std::optional<Refusal> NodeStandsInTheWay(const NodeSnapshot& in, const Demand& demand) {
  const domain::ComputeDomainView& view = in.known.cached.at(demand.config.domain_id);
  if (auto refusal = domain::RefuseForNode(demand, *in.node, view.fabric_policy)) return refusal;
  if (auto refusal = domain::RefuseExclusive(demand, view, *in.node)) return refusal;
  if (!in.clique || !in.clique->domain) return std::nullopt;
  const api::ImexDomain& domain = *in.clique->domain;
  if (domain::DomainNameFor(view, domain.clique_id) != domain.meta.name)
    return domain::RefuseInDomain(demand, view, *in.node, domain, domain::BelongsIn(*in.clique, *in.node));
  if (domain::HoldsUngranted(*in.clique, *in.node)) return domain::RefuseForeignChannels(demand, *in.node);
  if (const auto unknown = domain::UnknownToDriver(domain.imex_config, in.node->status.driver_version))
    return domain::RefuseOldDriver(demand, *in.node, *unknown);
  const bool full = domain.members.size() >= static_cast<std::size_t>(domain.node_slots);
  if (full && api::FindMember(domain, demand.node) == nullptr)
    return domain::RefuseNoSlot(demand, domain.meta.name, domain.node_slots);
  return std::nullopt;
}

// On a node without fabric; elsewhere the IMEXDomain says it.
std::optional<Refusal> HeldForEver(const NodeSnapshot& in, const Demand& demand) {
  const domain::ComputeDomainView& view = in.known.cached.at(demand.config.domain_id);
  const api::Exemption* exemption = domain::FindExemption(*in.node, demand.config.domain_id);
  const bool held = exemption != nullptr && !exemption->Releases(demand.claim_uid);
  if (!held || view.gate_refusal.empty()) return std::nullopt;
  return domain::RefuseTimedOut(demand, view);
}

std::optional<Refusal> RefusalOf(const NodeSnapshot& in, const Demand& demand, NodeDecision& out) {
  const domain::Judgement judgement = domain::Judge(demand, in.known);
  switch (judgement.verdict) {
    case Verdict::kIgnore:
      return std::nullopt;
    case Verdict::kRefuse:
      return judgement.refusal;
    case Verdict::kServe:
      if (auto refusal = NodeStandsInTheWay(in, demand)) return refusal;
      return HeldForEver(in, demand);
    case Verdict::kLookUp:
      break;
  }
  const Refusal* standing = api::FindRefusal(in.node->refusals, demand.node, demand.config.domain_id);
  if (standing != nullptr) return *standing;
  out.look_up.insert({demand.ns, demand.config.domain_id});
  return std::nullopt;
}

// Without an assignment the plugin reads no IMEXDomain, so its refusals stand here.
std::vector<Refusal> Refusals(const NodeSnapshot& in, NodeDecision& out) {
  std::vector<Refusal> refusals;
  if (out.domain) return refusals;
  for (const WaitingClaim& claim : in.claims) {
    auto refusal = RefusalOf(in, claim.demand, out);
    if (!refusal) continue;
    refusal->node.clear();
    refusals.push_back(std::move(*refusal));
  }
  return domain::Tidy(std::move(refusals));
}

bool IsMember(const NodeSnapshot& in) {
  return in.clique && in.clique->domain && api::FindMember(*in.clique->domain, in.node->meta.name) != nullptr;
}

void Exempt(const NodeSnapshot& in, NodeDecision& out) {
  std::vector<Demand> demands;
  for (const WaitingClaim& claim : in.claims) demands.push_back(claim.demand);
  domain::ExemptionDecision decision = domain::DecideExemptions(*in.node, IsMember(in), demands, in.known);
  out.exemptions = std::move(decision.exemptions);
  out.verify = std::move(decision.verify);
}

void Maintain(const NodeSnapshot& in, NodeDecision& out) {
  const bool may_begin = !in.clique || domain::MayBeginMaintenance(*in.clique);
  domain::MaintenanceDecision decision = domain::DecideMaintenance({*in.node, in.daemon_revision, !in.claims.empty(), may_begin});
  out.maintenance = std::move(decision.token);
  out.delete_pod = std::move(decision.delete_pod);
  // The end of another one's maintenance is told, see World::QueueNeighbours; that it has left the clique meanwhile may not be.
  if (decision.waits) out.again = kLookForTurn;
}

domain::WakeInput Progress(const NodeSnapshot& in, const WaitingClaim& claim) {
  const std::string& uid = claim.demand.config.domain_id;
  const api::ImexDomain* domain = in.clique && in.clique->domain ? &*in.clique->domain : nullptr;
  domain::WakeInput input;
  input.age = claim.age;
  input.old = claim.old;
  // A claim that changed hands is a new one here, and the loss may be known first.
  const std::string& before = claim.calls ? *claim.calls : in.node->status.plugin_registered;
  input.renewed = before != CallsOf(*in.node, claim.uid);
  const auto& held = in.node->status.channels;
  input.listed =
      std::any_of(held.begin(), held.end(), [&](const api::NodeChannel& entry) { return entry.compute_domain_uid == uid; });
  const std::string& name = in.node->meta.name;
  input.refused = api::FindRefusal(in.node->refusals, name, uid) != nullptr ||
                  (domain != nullptr && api::FindRefusal(domain->refusals, name, uid) != nullptr);
  const ChannelLease* lease = domain == nullptr ? nullptr : api::FindLease(*domain, uid);
  const api::Exemption* exemption = domain::FindExemption(*in.node, uid);
  if (exemption != nullptr && domain::MayExempt(*in.node, IsMember(in))) {
    // Nothing is announced without a channel, so a pod that got through does not show.
    input.served = input.listed = exemption->Releases(claim.uid);
    return input;
  }
  const bool released = lease != nullptr && lease->state == LeaseState::kActive && lease->Releases(claim.uid);
  input.served = released && domain::ServesNow(*domain, *in.node);
  // What is listed while this claim is held is another one's.
  input.listed = input.listed && (released || lease == nullptr);
  return input;
}

void Wake(const NodeSnapshot& in, NodeDecision& out) {
  for (const WaitingClaim& claim : in.claims) {
    const domain::WakeStep step = domain::StepWake(claim.state, Progress(in, claim));
    out.states.push_back({claim.uid, step.next, CallsOf(*in.node, claim.uid)});
    const bool begins = step.next == WakeState::kDone && claim.state != WakeState::kDone && !claim.old;
    if (begins && domain::FindExemption(*in.node, claim.demand.config.domain_id) != nullptr) out.without_channel.push_back(claim);
    if (step.wake) out.wake.insert(out.wake.end(), claim.pods.begin(), claim.pods.end());
    if (step.again) out.again = out.again ? std::min(*out.again, *step.again) : *step.again;
  }
  std::sort(out.wake.begin(), out.wake.end());
  out.wake.erase(std::unique(out.wake.begin(), out.wake.end()), out.wake.end());
}

}  // namespace

std::string CallsOf(const ImexNode& node, const std::string& claim_uid) {
  std::string calls = node.status.plugin_registered;
  for (const api::LostPrepare& lost : node.status.lost_prepares) {
    if (lost.claim_uid == claim_uid) calls += " " + lost.time;
  }
  return calls;
}

NodeDecision DecideNode(const NodeSnapshot& snapshot) {
  NodeDecision out;
  out.domain = Assignment(snapshot);
  out.refusals = Refusals(snapshot, out);
  Exempt(snapshot, out);
  Maintain(snapshot, out);
  out.write = out.domain != snapshot.node->domain || out.refusals != snapshot.node->refusals ||
              out.exemptions != snapshot.node->exemptions || out.maintenance != snapshot.node->maintenance;
  Wake(snapshot, out);
  return out;
}

}  // namespace cd::controller
