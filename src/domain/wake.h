// When the pod of a claim needs a push. A failed Prepare is repeated by the kubelet only 60–90 s later, unless the pod object
// changes. So a pod whose Prepare may have given up before its node could serve it gets one annotation when the node can.
#pragma once

#include <optional>

#include "src/base/clock.h"

namespace cd::domain {

// Shorter than the 10 s a Prepare waits: one that is still waiting sees the change by itself, and a superfluous push does no
// harm.
inline constexpr Duration kPrepareMayHaveFailed{8'000};
// A node that could serve the claim all the time has announced its channel long before, unless the kubelet's call failed: its
// plugin was not registered at that moment.
inline constexpr Duration kPrepareHasFailed{12'000};
// A plugin that registers anew may have been away while the kubelet called it for such a claim; the pods of older ones run, or
// are being tried again by the kubelet.
inline constexpr Duration kAllocatedLately{300'000};

enum class WakeState {
  kWaiting,  // a Prepare in flight would see what it waits for
  kBlocked,  // a Prepare may have failed for something the node lacks
  kDone,     // served, or pushed: nothing more to do
};

struct WakeInput {
  bool served = false;   // the node can start the claim's containers now
  bool listed = false;   // the node reports the ComputeDomain's channel: its first pod got through Prepare
  bool refused = false;  // a refusal stands for this claim
  bool old = false;      // the claim was allocated before this process began to look: its age is unknown
  bool renewed = false;  // the node's plugin registered with its kubelet since the state was last stepped
  Duration age{0};       // since it was first seen allocated
};

struct WakeStep {
  WakeState next = WakeState::kWaiting;
  bool wake = false;
  std::optional<Duration> again = std::nullopt;  // step again after that, if nothing happens before
};

WakeStep StepWake(WakeState state, const WakeInput& input);

}  // namespace cd::domain
