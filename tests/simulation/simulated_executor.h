// Virtual time, and executors whose tasks run when the scheduler says so.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "src/base/executor.h"

namespace cd::simulation {

class SimulatedClock final : public Clock {
 public:
  SteadyTime Now() const override { return now_; }
  WallTime WallNow() const override { return wall_; }
  void Advance(Duration by) {
    now_ += by;
    wall_ += by;
  }
  // A correction by NTP; monotonic time goes on.
  void JumpWall(Duration by) { wall_ += by; }

 private:
  SteadyTime now_{std::chrono::hours(1)};
  WallTime wall_{std::chrono::seconds(1'800'000'000)};
};

class SimulatedExecutor final : public Executor {
 public:
  explicit SimulatedExecutor(const SimulatedClock& clock) : clock_(clock) {}

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
  const Clock& clock() const override { return clock_; }

  bool HasPosted() const { return !posted_.empty(); }
  bool HasDue() const { return !timers_.empty() && timers_.begin()->first.first <= clock_.Now(); }
  std::optional<SteadyTime> NextTimer() const {
    return timers_.empty() ? std::nullopt : std::optional(timers_.begin()->first.first);
  }
  Task TakePosted() {
    Task task = std::move(posted_.front());
    posted_.pop_front();
    return task;
  }
  Task TakeDue() { return std::move(timers_.extract(timers_.begin()).mapped()); }

 private:
  const SimulatedClock& clock_;
  std::deque<Task> posted_;
  std::map<std::pair<SteadyTime, TimerId>, Task> timers_;
  TimerId next_ = 1;
};

}  // namespace cd::simulation
