#include "src/domain/wake.h"

namespace cd::domain {

WakeStep StepWake(WakeState state, const WakeInput& input) {
  if (state == WakeState::kDone) return {WakeState::kDone, false};
  // An old claim of a ComputeDomain that the node lists most likely runs already.
  if (input.old && input.listed && state == WakeState::kWaiting) return {WakeState::kDone, false};
  const bool may_have_failed = state == WakeState::kBlocked || input.refused || input.old || input.age >= kPrepareMayHaveFailed;
  if (!input.served || input.refused) return {may_have_failed ? WakeState::kBlocked : WakeState::kWaiting, false};
  return {WakeState::kDone, may_have_failed};
}

}  // namespace cd::domain
