#include "src/domain/exemptions.h"

#include <algorithm>

#include "src/domain/isolation.h"
#include "src/domain/release.h"

namespace cd::domain {

using api::Exemption;

namespace {

bool Lives(const KnownDomains& known, const std::string& uid) {
  const auto it = known.cached.find(uid);
  return it != known.cached.end() && !it->second.deleting && !known.deleted.contains(uid);
}

// There is nothing to be connected with: who comes later goes as soon as the gang has gone.
void LetGo(Exemption& exemption, const std::vector<Demand>& demands, const KnownDomains& known) {
  std::set<std::string> in_use;
  for (const Demand& demand : demands) {
    if (demand.config.domain_id == exemption.compute_domain.uid && demand.ns == exemption.compute_domain.ns)
      in_use.insert(demand.claim_uid);
  }
  const auto gate = known.gates.find(exemption.compute_domain.uid);
  Release release = DecideRelease({exemption.released, exemption.released_claims},
                                  gate == known.gates.end() ? nullptr : &gate->second, in_use, in_use);
  exemption.released = release.all;
  exemption.released_claims = std::move(release.claims);
}

bool Has(const std::vector<Exemption>& exemptions, const std::string& uid) {
  return std::any_of(exemptions.begin(), exemptions.end(), [&](const Exemption& e) { return e.compute_domain.uid == uid; });
}

}  // namespace

bool MayExempt(const api::ImexNode& node, bool member) {
  return node.reported && api::NoFabric(node.status) && !member && !node.domain && node.status.channels.empty();
}

const Exemption* FindExemption(const api::ImexNode& node, const std::string& compute_domain_uid) {
  const auto it = std::find_if(node.exemptions.begin(), node.exemptions.end(),
                               [&](const Exemption& e) { return e.compute_domain.uid == compute_domain_uid; });
  return it == node.exemptions.end() ? nullptr : &*it;
}

ExemptionDecision DecideExemptions(const api::ImexNode& node, bool member, const std::vector<Demand>& demands,
                                   const KnownDomains& known) {
  ExemptionDecision out;
  // A report that is missing for a moment takes nothing away from pods that run.
  if (!node.reported) return {node.exemptions, {}};
  if (!MayExempt(node, member)) return out;
  for (const Exemption& exemption : node.exemptions) {
    if (Lives(known, exemption.compute_domain.uid)) out.exemptions.push_back(exemption);
  }
  for (const Demand& demand : demands) {
    const std::string& uid = demand.config.domain_id;
    if (Has(out.exemptions, uid) || Judge(demand, known).verdict != Verdict::kServe) continue;
    const ComputeDomainView& view = known.cached.at(uid);
    if (view.fabric_policy != api::FabricPolicy::kOptional || RefuseExclusive(demand, view, node)) continue;
    const bool verified = known.verified.contains(uid);
    const bool asked = std::find(out.verify.begin(), out.verify.end(), view.ref) != out.verify.end();
    if (verified) {
      out.exemptions.push_back(
          {.compute_domain = view.ref, .released = false, .exclusive = view.isolation == api::IsolationMode::kDomain});
    } else if (!asked) {
      out.verify.push_back(view.ref);
    }
  }
  for (Exemption& exemption : out.exemptions) LetGo(exemption, demands, known);
  std::sort(out.exemptions.begin(), out.exemptions.end(),
            [](const Exemption& a, const Exemption& b) { return a.compute_domain.uid < b.compute_domain.uid; });
  return out;
}

}  // namespace cd::domain
