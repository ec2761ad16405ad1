#include "src/controller/decide_gate.h"

#include <algorithm>

namespace cd::controller {

namespace {

const api::Condition* Formed(const api::ComputeDomain& cd) {
  const auto& conditions = cd.status.conditions;
  const auto it = std::find_if(conditions.begin(), conditions.end(), [](const api::Condition& c) { return c.type == "Formed"; });
  return it == conditions.end() ? nullptr : &*it;
}

}  // namespace

std::string GateState(const GateSnapshot& gate, const domain::Formation& formation) {
  std::string state;
  for (const GatedClaim& claim : gate.claims) state += claim.uid + " ";
  return state + formation.missing;
}

domain::GateInput GateInputOf(const api::ComputeDomain& cd, const GateSnapshot& gate, const domain::Formation& formation) {
  domain::GateInput out;
  out.gating = *cd.gating;
  out.nodes = formation.nodes;
  out.missing = formation.missing;
  out.open = gate.open;
  out.workloads = gate.workloads;
  out.unchanged = gate.unchanged;
  bool all_old = !gate.claims.empty();
  for (const GatedClaim& claim : gate.claims) {
    out.claims.push_back(claim.uid);
    out.waited = std::max(out.waited, claim.age);
    all_old = all_old && claim.old;
  }
  std::sort(out.claims.begin(), out.claims.end());
  if (const api::Condition* before = Formed(cd)) {
    out.before = *before;
    out.timed_out_before =
        all_old && before->reason == domain::kGateTimedOut && before->observed_generation == cd.meta.generation;
  }
  return out;
}

}  // namespace cd::controller
