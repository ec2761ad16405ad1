// Which of several replicas works: the holder of a Lease object.
//
// A candidate judges the lease by its own monotonic clock: it is free once the record has not changed for the duration *written
// in it*, whatever times it carries. A leader that cannot renew for `renew_deadline` stops being one, before others may take
// over. This is no fencing: a write under way when leadership is lost may still arrive, so writes carry a resourceVersion as
// precondition.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/api/meta.h"
#include "src/base/executor.h"
#include "src/kube/client.h"

namespace cd::kube {

struct LeaderElectionOptions {
  api::ObjectKey lease = {};
  std::string identity = {};  // unique per process life, e.g. "<pod name>_<pod UID>"
  // lease_duration > renew_deadline > 1.2 × retry_period
  Duration lease_duration{15'000};
  Duration renew_deadline{10'000};
  Duration retry_period{2'000};
};

class LeaderElector {
 public:
  struct Callbacks {
    std::function<void()> on_started;
    // Leadership is lost for good: the safe answer is the end of the process. Not called by Release.
    std::function<void()> on_lost;
  };

  // Everything but IsLeader on the executor, which is the client's.
  LeaderElector(ApiClient& client, Executor& executor, LeaderElectionOptions options, Callbacks callbacks, std::uint64_t seed);
  ~LeaderElector();
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  void Start();
  // Clean stop: gives the lease up if it is held, so that the next replica need not wait, then calls `done` (also when that
  // failed). Stop working before calling it.
  void Release(std::function<void()> done);
  // Any thread. False from the moment the renew deadline passes.
  bool IsLeader() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cd::kube
