#include "src/kube/work_queue.h"

#include <algorithm>

namespace cd::kube {

WorkQueue::WorkQueue(const Clock& clock, Backoff backoff) : clock_(clock), backoff_(backoff) {}

void WorkQueue::Add(const std::string& key) {
  std::lock_guard lock(mutex_);
  EnqueueLocked(key);
}

void WorkQueue::AddAfter(const std::string& key, Duration delay) {
  std::lock_guard lock(mutex_);
  if (delay <= Duration(0)) return EnqueueLocked(key);
  const SteadyTime due = clock_.Now() + delay;
  auto [it, inserted] = waiting_.emplace(key, due);
  if (!inserted) it->second = std::min(it->second, due);
  changed_.notify_one();  // the taker may have to wait for less long
}

void WorkQueue::AddRateLimited(const std::string& key) {
  Duration delay = backoff_.first;
  {
    std::lock_guard lock(mutex_);
    const int failures = failures_[key]++;
    for (int i = 0; i < failures && delay < backoff_.longest; ++i) delay *= 2;
  }
  AddAfter(key, std::min(delay, backoff_.longest));
}

void WorkQueue::Forget(const std::string& key) {
  std::lock_guard lock(mutex_);
  failures_.erase(key);
}

std::optional<std::string> WorkQueue::Take() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (shut_down_) return std::nullopt;
    if (auto key = TakeLocked()) return key;
    if (waiting_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto next =
        std::min_element(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    changed_.wait_for(lock, next->second - clock_.Now());
  }
}

std::optional<std::string> WorkQueue::TryTake() {
  std::lock_guard lock(mutex_);
  if (shut_down_) return std::nullopt;
  return TakeLocked();
}

void WorkQueue::Done(const std::string& key) {
  std::lock_guard lock(mutex_);
  processing_.erase(key);
  if (!dirty_.contains(key)) return;
  ready_.push_back(key);
  changed_.notify_one();
}

void WorkQueue::ShutDown() {
  std::lock_guard lock(mutex_);
  shut_down_ = true;
  changed_.notify_all();
}

std::size_t WorkQueue::Depth() const {
  std::lock_guard lock(mutex_);
  return ready_.size();
}

void WorkQueue::EnqueueLocked(const std::string& key) {
  if (shut_down_ || !dirty_.insert(key).second || processing_.contains(key)) return;
  ready_.push_back(key);
  changed_.notify_one();
}

void WorkQueue::MoveDueLocked() {
  const SteadyTime now = clock_.Now();
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->second > now) {
      ++it;
      continue;
    }
    EnqueueLocked(it->first);
    it = waiting_.erase(it);
  }
}

std::optional<std::string> WorkQueue::TakeLocked() {
  MoveDueLocked();
  if (ready_.empty()) return std::nullopt;
  std::string key = std::move(ready_.front());
  ready_.pop_front();
  dirty_.erase(key);
  processing_.insert(key);
  return key;
}

}  // namespace cd::kube
