// The decisions of leader election: pure, time is an argument.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "src/base/clock.h"

namespace cd::kube {

// spec of a coordination.k8s.io/v1 Lease. Times are kept as text: they are for people.
struct LeaseRecord {
  std::string holder;  // empty: nobody
  int duration_seconds = 0;
  std::string acquire_time;
  std::string renew_time;
  int transitions = 0;
  bool operator==(const LeaseRecord&) const = default;
};

LeaseRecord DecodeLease(const nlohmann::json& lease);
// Puts `record` into `lease`, leaving all else of it as it is.
void EncodeLease(const LeaseRecord& record, nlohmann::json& lease);

// When the record was last seen to change, by our own clock.
class LeaseObservation {
 public:
  void See(const LeaseRecord& record, SteadyTime now);
  // The lease is ours to take or keep: nobody holds it, we do, or its holder was silent for its whole duration.
  bool Takeable(const std::string& identity, SteadyTime now) const;
  const LeaseRecord& record() const { return record_; }

 private:
  LeaseRecord record_;
  std::optional<SteadyTime> changed_;
};

// What `identity` writes over `current` to take or renew the lease.
LeaseRecord Renewed(const LeaseRecord& current, const std::string& identity, Duration duration, WallTime now);
// What a leader writes to give it up.
LeaseRecord Released(const LeaseRecord& current, WallTime now);

}  // namespace cd::kube
