// Keys waiting for a worker: de-duplicated, never on two workers at once, re-queued with per-key exponential back-off.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "src/base/clock.h"

namespace cd::kube {

class WorkQueue {
 public:
  struct Backoff {
    Duration first{5};
    Duration longest{6'000};  // a whole clique retries within seconds, yet never in lock-step with others: keys back off alone
  };

  explicit WorkQueue(const Clock& clock) : WorkQueue(clock, Backoff{}) {}
  WorkQueue(const Clock& clock, Backoff backoff);

  // Any thread. A key being processed is queued again when its Done is called.
  void Add(const std::string& key);
  // Not before `delay`; the earliest wish of a waiting key wins, so a periodic re-check must be asked for again by the sync
  // itself.
  void AddAfter(const std::string& key, Duration delay);
  void AddRateLimited(const std::string& key);
  void Forget(const std::string& key);

  // Blocks until a key is due or ShutDown; nullopt after ShutDown.
  std::optional<std::string> Take();
  // Does not block: nullopt when nothing is due.
  std::optional<std::string> TryTake();
  void Done(const std::string& key);
  void ShutDown();
  std::size_t Depth() const;

 private:
  void EnqueueLocked(const std::string& key);
  void MoveDueLocked();
  std::optional<std::string> TakeLocked();

  const Clock& clock_;
  const Backoff backoff_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> ready_;
  std::set<std::string> dirty_;  // wants processing: in ready_, or waiting for its Done
  std::set<std::string> processing_;
  std::map<std::string, SteadyTime> waiting_;  // earliest due time
  std::map<std::string, int> failures_;
  bool shut_down_ = false;
};

}  // namespace cd::kube
