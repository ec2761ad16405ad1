#include "src/base/event_loop.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <limits>

#include "src/base/log.h"
#include "src/base/result.h"

namespace cd {
namespace {

// Without these two descriptors no process of ours can do anything: restarting is the only remedy.
int MustBeFd(int fd, const char* what) {
  if (fd < 0) {
    LogError("event loop cannot start", {{"error", ErrnoError(errno, what).message}});
    std::abort();
  }
  return fd;
}

constexpr std::uint64_t kWakeKey = std::numeric_limits<std::uint64_t>::max();

std::uint64_t EventKey(int fd, std::uint64_t generation) {
  return (generation << 32) | static_cast<std::uint32_t>(fd);
}

}  // namespace

EventLoop::EventLoop(const Clock& clock)
    : clock_(clock),
      epoll_(MustBeFd(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wake_(MustBeFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeKey;
  MustBeFd(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event), "epoll_ctl");
}

EventLoop::~EventLoop() {
  // What the dropped tasks own may post while it is destroyed, so nothing is destroyed under the lock or inside a member.
  for (;;) {
    std::vector<Task> posted;
    std::multimap<SteadyTime, Timer> timers;
    {
      std::lock_guard lock(mutex_);
      posted.swap(posted_);
      timers.swap(timers_);
      due_.clear();
    }
    if (posted.empty() && timers.empty()) return;
  }
}

void EventLoop::Run() {
  thread_ = std::this_thread::get_id();
  std::array<epoll_event, 64> events;
  while (!stopping_) {
    RunPosted();
    RunTimers();
    if (stopping_) break;
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), MillisecondsToNextTimer());
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == kWakeKey) {
        std::uint64_t ignored;
        [[maybe_unused]] ssize_t n = ::read(wake_.get(), &ignored, sizeof ignored);
        continue;
      }
      const int fd = static_cast<int>(events[i].data.u64 & 0xffffffffU);
      auto it = watched_.find(fd);
      // An earlier handler of this batch may have unwatched it, or closed it and watched a new file of the same number.
      if (it == watched_.end() || EventKey(fd, it->second->generation) != events[i].data.u64) continue;
      const std::shared_ptr<Watched> keep = it->second;
      keep->handler(events[i].events);
    }
  }
  stopping_ = false;
  thread_ = std::thread::id();
}

void EventLoop::Stop() {
  Post([this] { stopping_ = true; });
}

void EventLoop::Post(Task task) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    wake = posted_.empty();
    posted_.push_back(std::move(task));
  }
  if (wake) Wake();
}

TimerId EventLoop::PostAfter(Duration delay, Task task) {
  const SteadyTime when = clock_.Now() + std::max(delay, Duration(0));
  TimerId id = 0;
  {
    std::lock_guard lock(mutex_);
    id = next_timer_++;
    timers_.emplace(when, Timer{id, std::move(task)});
    due_.emplace(id, when);
  }
  if (!IsCurrent()) Wake();
  return id;
}

void EventLoop::Cancel(TimerId timer) {
  Task dropped;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  auto due = due_.find(timer);
  if (due == due_.end()) return;
  auto [first, last] = timers_.equal_range(due->second);
  auto it = std::find_if(first, last, [&](const auto& entry) { return entry.second.id == timer; });
  dropped = std::move(it->second.task);
  timers_.erase(it);
  due_.erase(due);
}

bool EventLoop::IsCurrent() const {
  return thread_ == std::this_thread::get_id();
}

void EventLoop::Watch(int fd, std::uint32_t events, FdHandler handler) {
  assert(IsCurrent() || thread_.load() == std::thread::id());
  // 31 bits: together with the fd it must never be kWakeKey.
  auto watched = std::make_shared<Watched>(Watched{next_generation_++ & 0x7fffffffU, std::move(handler)});
  epoll_event event{};
  event.events = events;
  event.data.u64 = EventKey(fd, watched->generation);
  int failed = ::epoll_ctl(epoll_.get(), watched_.contains(fd) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
  // The watched file was closed and another one got its number.
  if (failed != 0 && errno == ENOENT) failed = ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  if (failed != 0) {
    LogError("cannot watch a file descriptor", {{"fd", fd}, {"error", ErrnoError(errno, "epoll_ctl").message}});
    watched_.erase(fd);
    return;
  }
  watched_[fd] = std::move(watched);
}

void EventLoop::Unwatch(int fd) {
  assert(IsCurrent() || thread_.load() == std::thread::id());
  if (watched_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::Wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

void EventLoop::RunPosted() {
  std::vector<Task> batch;
  {
    std::lock_guard lock(mutex_);
    batch.swap(posted_);
  }
  for (Task& task : batch) {
    task();
    task = nullptr;  // what it owns goes before the next task runs
  }
}

void EventLoop::RunTimers() {
  const SteadyTime now = clock_.Now();
  for (;;) {
    Task task;
    {
      std::lock_guard lock(mutex_);
      auto it = timers_.begin();
      if (it == timers_.end() || it->first > now) return;
      task = std::move(it->second.task);
      due_.erase(it->second.id);
      timers_.erase(it);
    }
    task();
  }
}

int EventLoop::MillisecondsToNextTimer() {
  std::lock_guard lock(mutex_);
  if (!posted_.empty()) return 0;
  if (timers_.empty()) return -1;
  const auto wait = timers_.begin()->first - clock_.Now();
  return static_cast<int>(std::clamp<std::int64_t>(wait.count(), 0, 3'600'000));
}

}  // namespace cd
