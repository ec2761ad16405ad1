// Simulated time for tests: an executor whose clock moves only when the test says so, with every task run on the test's thread.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "src/base/executor.h"

namespace cd {

class ManualClock final : public Clock {
 public:
  SteadyTime Now() const override { return now_; }
  WallTime WallNow() const override { return wall_; }
  void Advance(Duration by) {
    now_ += by;
    wall_ += by;
  }

 private:
  SteadyTime now_{std::chrono::hours(1)};
  WallTime wall_{std::chrono::seconds(1'800'000'000)};  // 2027-01-15T08:00:00Z
};

class ManualExecutor final : public Executor {
 public:
  void Post(Task task) override { posted_.push_back(std::move(task)); }
  TimerId PostAfter(Duration delay, Task task) override {
    const TimerId id = next_++;
    timers_.emplace(std::pair{clock_.Now() + delay, id}, std::move(task));
    return id;
  }
  void Cancel(TimerId timer) override {
    std::erase_if(timers_, [&](const auto& entry) { return entry.first.second == timer; });
  }
  bool IsCurrent() const override { return true; }
  const ManualClock& clock() const override { return clock_; }

  // Runs everything that needs no passing of time.
  void RunPosted() {
    while (!posted_.empty()) {
      Task task = std::move(posted_.front());
      posted_.pop_front();
      task();
    }
  }
  // Lets `by` pass; timers fire at their own times, simultaneous ones in creation order.
  void Advance(Duration by) {
    const SteadyTime end = clock_.Now() + by;
    RunPosted();
    while (!timers_.empty() && timers_.begin()->first.first <= end) {
      auto node = timers_.extract(timers_.begin());
      if (node.key().first > clock_.Now()) clock_.Advance(node.key().first - clock_.Now());
      node.mapped()();
      RunPosted();
    }
    clock_.Advance(end - clock_.Now());
  }
  std::size_t PendingTimers() const { return timers_.size(); }
  // Time until the next timer; zero when there is none.
  Duration UntilNextTimer() const { return timers_.empty() ? Duration(0) : timers_.begin()->first.first - clock_.Now(); }

 private:
  ManualClock clock_;
  std::deque<Task> posted_;
  std::map<std::pair<SteadyTime, TimerId>, Task> timers_;
  TimerId next_ = 1;
};

}  // namespace cd
