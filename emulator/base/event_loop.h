// One thread, one epoll: descriptors, timers and signals of a program, each with a callback.
//
// A callback may watch, change and forget descriptors, its own included; events already fetched for a descriptor that was
// forgotten meanwhile are dropped. The loop does not own the descriptors.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/base/unique_fd.h"

namespace emu {

using Milliseconds = std::chrono::milliseconds;

class EventLoop {
  using Clock = std::chrono::steady_clock;
  using TimerKey = std::pair<Clock::time_point, uint64_t>;

 public:
  using Handler = std::function<void(uint32_t events)>;

  // A pending timer; destroying or reassigning it cancels.
  class Timer {
   public:
    Timer() = default;
    Timer(Timer&& other) noexcept : loop_(std::exchange(other.loop_, nullptr)), key_(other.key_) {}
    Timer& operator=(Timer&& other) noexcept;
    ~Timer() { Cancel(); }
    void Cancel();

   private:
    friend class EventLoop;
    Timer(EventLoop* loop, TimerKey key) : loop_(loop), key_(key) {}
    EventLoop* loop_ = nullptr;
    TimerKey key_{};
  };

  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void Watch(int fd, uint32_t events, Handler handler);
  void Change(int fd, uint32_t events);
  void Forget(int fd);

  [[nodiscard]] Timer After(Milliseconds delay, std::function<void()> action);

  // Blocks the signals for the process and delivers them to `handler`. Call at most once, before threads start.
  void OnSignals(std::initializer_list<int> signals, std::function<void(int)> handler);

  // Runs until Stop(); returns its argument.
  int Run();
  void Stop(int result);

  // How long since an arbitrary start: for rate limits.
  static Milliseconds Now() { return std::chrono::duration_cast<Milliseconds>(Clock::now().time_since_epoch()); }

 private:
  struct Watched {
    uint64_t generation;
    std::shared_ptr<Handler> handler;
  };

  int TimeoutUntilNextTimer() const;
  void RunDueTimers();
  void Control(int operation, int fd, uint32_t events, uint64_t generation);

  UniqueFd epoll_;
  UniqueFd signals_;
  // Generations tell an event for a closed descriptor from one for its successor of the same number.
  std::unordered_map<int, Watched> watched_;
  uint64_t next_generation_ = 1;
  std::map<TimerKey, std::function<void()>> timers_;
  uint64_t next_timer_ = 1;
  bool running_ = false;
  int result_ = 0;
};

}  // namespace emu
