#include "src/domain/wake.h"

namespace cd::domain {

WakeStep StepWake(WakeState state, const WakeInput& input) {
  if (input.renewed && input.age < kAllocatedLately) state = WakeState::kBlocked;
  if (state == WakeState::kDone) return {WakeState::kDone, false};
  // An old claim of a ComputeDomain that the node lists most likely runs already.
  if (input.old && input.listed && state == WakeState::kWaiting) return {WakeState::kDone, false};
  if (!input.served || input.refused) {
    const bool blocked = state == WakeState::kBlocked || input.refused || input.old || input.age >= kPrepareMayHaveFailed;
    if (blocked) return {WakeState::kBlocked, false};
    return {WakeState::kWaiting, false, kPrepareMayHaveFailed - input.age};
  }
  if (state == WakeState::kBlocked || input.old) return {WakeState::kDone, true};
  if (input.listed) return {WakeState::kDone, false};
  if (input.age >= kPrepareHasFailed) return {WakeState::kDone, true};
  return {WakeState::kWaiting, false, kPrepareHasFailed - input.age};
}

}  // namespace cd::domain
