// When the held pods of a gated ComputeDomain may start. Pure.
//
// The gate is open for a gang when one of its claims in use is released: that stands in the API objects that Prepare reads
// (leases and exemptions), so it survives any restart, and a second gang, which has none of those claims, finds the gate shut.
// Releases are made for single claims, so nobody slips through on an earlier gang's release.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/api/compute_domain.h"
#include "src/base/clock.h"

namespace cd::domain {

// Condition Formed, reason: the gang's time is over and onTimeout is Fail.
inline constexpr char kGateTimedOut[] = "TimedOut";

// An owner of pods that hold claims of the ComputeDomain, as it was read from the API.
struct Workload {
  std::string name;                   // "Job train", for people
  std::optional<int> declared;        // pods it has at the same time; nullopt: it does not say
  int present = 0;                    // claims in use by its pods
  bool creates_by_readiness = false;  // the next pod comes when the former is Ready, which a held one never is
};

struct GateInput {
  api::Gating gating;
  std::vector<std::string> claims;  // UIDs of the claims in use; sorted
  std::size_t nodes = 0;            // that have one
  bool open = false;
  std::string missing;                             // what the nodes lack to be all ready and connected; empty: nothing
  std::optional<std::vector<Workload>> workloads;  // nullopt: not read
  Duration unchanged{0};                           // since claims are the same and nothing is missing
  Duration waited{0};                              // since the first claim came
  bool timed_out_before = false;                   // an earlier process has said so, and the same claims wait still
  std::optional<api::Condition> before;            // Formed as it stands in the status
};

struct GateDecision {
  bool release = false;   // all claims in use, now
  api::Condition formed;  // without generation and time
  std::optional<Duration> again;
};

GateDecision DecideGate(const GateInput& input);

}  // namespace cd::domain
