#include "src/domain/gating.h"

#include <algorithm>
#include <utility>

namespace cd::domain {

using api::Condition;
using api::OnTimeout;

namespace {

// Why the gang is not complete yet; an empty message: it is.
struct Lack {
  std::string reason;
  std::string message;
};

Condition Formed(bool yes, std::string reason, std::string message) {
  return {"Formed", yes ? "True" : "False", std::move(reason), std::move(message), 0, ""};
}

std::string Nodes(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " node" : " nodes");
}

// A held pod never becomes Ready, so such an owner never creates the next one.
Lack WaitsForReadiness(const Workload& workload) {
  return {"OwnerWaitsForReadiness",
          workload.name +
              " creates a pod only when the former is Ready, and a held pod never is; let it create all pods at once (for a "
              "StatefulSet "
              "podManagementPolicy: Parallel), lower spec.gating.minNodes to what it creates first, or remove spec.gating"};
}

Lack LacksMinNodes(const GateInput& input) {
  const auto needed = static_cast<std::size_t>(*input.gating.min_nodes);
  if (input.nodes >= needed) return {};
  if (input.workloads) {
    const auto it =
        std::find_if(input.workloads->begin(), input.workloads->end(), [](const Workload& w) { return w.creates_by_readiness; });
    if (it != input.workloads->end()) return WaitsForReadiness(*it);
  }
  return {"NodesMissing", Nodes(input.nodes) + " of " + std::to_string(needed) + " (spec.gating.minNodes) have a pod"};
}

Lack LacksPods(const GateInput& input) {
  if (!input.workloads) return {"OwnersUnknown", "the owners of the pods are being read"};
  for (const Workload& workload : *input.workloads) {
    if (workload.creates_by_readiness) return WaitsForReadiness(workload);
    if (!workload.declared) {
      return {
          "MinNodesNeeded",
          workload.name + " does not tell how many pods will come: set spec.gating.minNodes (it may be edited while pods wait)"};
    }
    if (workload.present < *workload.declared) {
      return {"PodsMissing", std::to_string(workload.present) + " of " + std::to_string(*workload.declared) + " pods of " +
                                 workload.name + " are scheduled"};
    }
  }
  return {};
}

Lack Lacks(const GateInput& input) {
  Lack lack = input.gating.min_nodes ? LacksMinNodes(input) : LacksPods(input);
  if (!lack.message.empty() || input.missing.empty()) return lack;
  return {"NodesNotReady", input.missing};
}

// Once open it stays so for this gang; what breaks later is what Ready and Degraded are for.
GateDecision Open(const GateInput& input, const Lack& lack) {
  GateDecision out;
  const bool was_formed = input.before && input.before->status == "True";
  if (was_formed || lack.message.empty()) {
    out.formed = Formed(true, "Formed", "the ComputeDomain has formed; pods that come later start when their node is connected");
  } else {
    out.formed = Formed(false, "Released", "pods were released by spec.gating.onTimeout before it had formed: " + lack.message);
  }
  return out;
}

GateDecision TimedOut(const GateInput& input, const Lack& lack) {
  GateDecision out;
  const std::string seconds = std::to_string(input.gating.timeout_seconds);
  if (input.gating.on_timeout == OnTimeout::kRelease) {
    out.release = true;
    out.formed =
        Formed(false, "Released", "not formed after " + seconds + " s (spec.gating.onTimeout: Release): " + lack.message);
    return out;
  }
  out.formed = Formed(false, kGateTimedOut,
                      "not formed within spec.gating.timeoutSeconds (" + seconds + " s): " + lack.message +
                          "; its pods are refused until all of them are deleted, or spec.gating is edited or removed");
  return out;
}

}  // namespace

GateDecision DecideGate(const GateInput& input) {
  GateDecision out;
  if (input.claims.empty()) {
    out.formed = Formed(false, "NoNodes", "no pod with a claim of this ComputeDomain is scheduled");
    return out;
  }
  const Lack lack = Lacks(input);
  if (input.open) return Open(input, lack);
  const Duration timeout = std::chrono::seconds(input.gating.timeout_seconds);
  const Duration settle = std::chrono::seconds(input.gating.settle_seconds);
  const bool complete = lack.message.empty();
  if (input.timed_out_before || input.waited >= timeout) {
    return TimedOut(input, complete ? Lack{"", "it was complete, but not for spec.gating.settleSeconds"} : lack);
  }
  out.again = timeout - input.waited;
  if (!complete) {
    out.formed = Formed(false, lack.reason, "pods are held: " + lack.message);
    return out;
  }
  if (input.unchanged < settle) {
    out.again = std::min(*out.again, settle - input.unchanged);
    out.formed = Formed(false, "Settling",
                        "pods are held until " + Nodes(input.nodes) + " stay connected for " +
                            std::to_string(input.gating.settle_seconds) + " s");
    return out;
  }
  out.again.reset();
  out.release = true;
  out.formed = Formed(true, "Formed", "the ComputeDomain has formed; pods that come later start when their node is connected");
  return out;
}

}  // namespace cd::domain
