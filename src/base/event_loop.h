// The executor of a process's I/O thread: posts, timers and file descriptors on one epoll.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/executor.h"
#include "src/base/fd.h"

namespace cd {

class EventLoop final : public Executor {
 public:
  // `events` is an epoll mask (EPOLLIN | EPOLLOUT).
  using FdHandler = std::function<void(std::uint32_t events)>;

  explicit EventLoop(const Clock& clock = SystemClock());
  ~EventLoop() override;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs until Stop. The calling thread becomes the loop's thread.
  void Run();
  // Any thread; posts made before it still run.
  void Stop();

  void Post(Task task) override;
  TimerId PostAfter(Duration delay, Task task) override;
  void Cancel(TimerId timer) override;
  bool IsCurrent() const override;
  const Clock& clock() const override { return clock_; }

  // Loop's thread (or before Run). Watching a watched fd changes its mask and handler. The fd stays the caller's and must
  // be unwatched before it is closed.
  void Watch(int fd, std::uint32_t events, FdHandler handler);
  void Unwatch(int fd);

 private:
  struct Timer {
    TimerId id;
    Task task;
  };
  struct Watched {
    std::uint64_t generation;  // an event of an earlier Watch of the same number is dropped
    FdHandler handler;
  };

  void Wake();
  void RunPosted();
  void RunTimers();
  int MillisecondsToNextTimer();

  const Clock& clock_;
  Fd epoll_;
  Fd wake_;
  std::atomic<std::thread::id> thread_;
  bool stopping_ = false;  // loop's thread only

  std::mutex mutex_;  // guards posted_, timers_, due_, next_timer_
  std::vector<Task> posted_;
  std::multimap<SteadyTime, Timer> timers_;
  std::map<TimerId, SteadyTime> due_;
  TimerId next_timer_ = 1;

  std::map<int, std::shared_ptr<Watched>> watched_;  // loop's thread only
  std::uint64_t next_generation_ = 1;
};

}  // namespace cd
