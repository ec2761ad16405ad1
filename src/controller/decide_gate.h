// What the gate of a ComputeDomain with spec.gating is decided from. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/domain/cd_status.h"
#include "src/domain/gating.h"

namespace cd::controller {

// A claim in use of a gated ComputeDomain.
struct GatedClaim {
  std::string uid;
  std::vector<api::ObjectRef> pods;
  Duration age{0};   // since it was first seen in use
  bool old = false;  // before this process began to act
};

struct GateSnapshot {
  std::vector<GatedClaim> claims;
  bool open = false;
  // Filled by the reconciler.
  std::optional<std::vector<domain::Workload>> workloads;
  Duration unchanged{0};  // since GateState is what it is
};

// Changes when the gang does, or what it lacks: how long it stays the same is what settleSeconds is about.
std::string GateState(const GateSnapshot& gate, const domain::Formation& formation);

domain::GateInput GateInputOf(const api::ComputeDomain& cd, const GateSnapshot& gate, const domain::Formation& formation);

}  // namespace cd::controller
