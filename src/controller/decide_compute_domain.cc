#include "src/controller/decide_compute_domain.h"

#include <algorithm>

#include "src/domain/acceptance.h"

namespace cd::controller {

using domain::Urgency;

namespace {

// Between two writes of one status.
constexpr Duration kStatusInterval{2'000};
// Pods that start together are seen within a fraction of this.
constexpr Duration kGatherGrowth{300};
// Pods of one workload end over seconds, and often their ComputeDomain follows.
constexpr Duration kGatherShrink{3'000};

Duration Gather(Urgency urgency) {
  switch (urgency) {
    case Urgency::kSoon:
      return kGatherGrowth;
    case Urgency::kLater:
      return kGatherShrink;
    case Urgency::kNothing:
    case Urgency::kAtOnce:
      break;
  }
  return Duration{0};
}

domain::StatusInput StatusInputOf(const ComputeDomainSnapshot& in) {
  return {*in.cd, domain::WhyNotAccepted(*in.cd), std::nullopt, in.nodes, in.reports, in.domains, in.now};
}

void DecideTheGate(const ComputeDomainSnapshot& in, domain::StatusInput& input, ComputeDomainDecision& out) {
  if (!in.cd->gating || input.not_accepted) return;
  const domain::GateDecision gate = domain::DecideGate(GateInputOf(*in.cd, in.gate, domain::FormationOf(input)));
  input.formed = gate.formed;
  out.gate_due = gate.again;
  if (!gate.release) return;
  for (const GatedClaim& claim : in.gate.claims) out.release.insert(claim.uid);
}

void DecideStatus(const ComputeDomainSnapshot& in, ComputeDomainDecision& out) {
  domain::StatusInput input = StatusInputOf(in);
  const TemplateView& t = in.claim_template;
  if (!in.cd->meta.HasFinalizer(api::kFinalizer) && !in.finalizer_refusal.empty()) {
    input.finalizer_refused = std::string("the finalizer ") + api::kFinalizer +
                              " cannot be set on this ComputeDomain, it is tried again: " + in.finalizer_refusal +
                              "; let the admission policies allow it to the driver's controller";
  }
  if (t.exists && !t.ours) {
    input.template_conflict = "spec.channel.resourceClaimTemplate.name: ResourceClaimTemplate " + in.cd->claim_template_name +
                              " exists already and belongs to " + t.owner +
                              "; it is left alone: delete it, or create the ComputeDomain anew with another name";
  } else if (!t.exists && !t.refusal.empty()) {
    input.template_refused = "ResourceClaimTemplate " + in.cd->claim_template_name + " cannot be created in namespace " +
                             in.cd->meta.ns + ", it is tried again: " + t.refusal +
                             "; let the namespace's quota and admission policies allow it";
  }
  DecideTheGate(in, input, out);
  const api::ComputeDomainStatus wanted = domain::Summarize(input);
  const Urgency urgency = domain::UrgencyOf(in.cd->status, wanted);
  if (urgency == Urgency::kNothing) return;
  out.differs = true;
  const Duration gathered = in.since_change.value_or(Duration{0});
  const Duration quiet = in.since_write.value_or(kStatusInterval);
  // Acceptance comes right after creation or an edit, is not held back, and holds nothing back: people wait for what follows it.
  out.counts = urgency != Urgency::kAtOnce;
  const Duration interval = out.counts ? kStatusInterval : Duration{0};
  const Duration due = std::max(Gather(urgency) - gathered, interval - quiet);
  if (due <= Duration{0}) {
    out.status = wanted;
  } else {
    out.status_due = due;
  }
}

bool LeasesActively(const api::ImexDomain& domain, const std::string& uid) {
  return std::any_of(domain.channels.begin(), domain.channels.end(), [&](const api::ChannelLease& lease) {
    return lease.compute_domain.uid == uid && lease.state == api::LeaseState::kActive;
  });
}

}  // namespace

domain::Formation FormationOf(const ComputeDomainSnapshot& snapshot) {
  return domain::FormationOf(StatusInputOf(snapshot));
}

ComputeDomainDecision DecideComputeDomain(const ComputeDomainSnapshot& in) {
  ComputeDomainDecision out;
  const bool ours = in.cd->meta.HasFinalizer(api::kFinalizer);
  if (in.cd->meta.deleting) {
    if (!ours) return out;
    out.delete_template = in.claim_template.exists && in.claim_template.ours;
    for (const auto& [name, domain] : in.domains) {
      if (LeasesActively(*domain, in.cd->meta.uid)) out.drain.push_back(name);
    }
    out.remove_finalizer = true;
    return out;
  }
  out.add_finalizer = !ours;
  // A ComputeDomain that cannot be served gets no template, so that no pod starts and then waits: it stays Pending, and says so.
  out.create_template = !in.claim_template.exists && !domain::WhyNotAccepted(*in.cd);
  DecideStatus(in, out);
  return out;
}

}  // namespace cd::controller
