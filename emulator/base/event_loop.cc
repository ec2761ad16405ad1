#include "emulator/base/event_loop.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emu {
namespace {

// Failures of epoll on descriptors we own are programming errors or kernel exhaustion: nothing sensible is left to do.
void Require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::abort();
}

// epoll_data holds descriptor and the low half of the generation.
uint64_t Pack(int fd, uint64_t generation) {
  return generation << 32 | static_cast<uint32_t>(fd);
}

}  // namespace

EventLoop::Timer& EventLoop::Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    Cancel();
    loop_ = std::exchange(other.loop_, nullptr);
    key_ = other.key_;
  }
  return *this;
}

void EventLoop::Timer::Cancel() {
  if (loop_ != nullptr) std::exchange(loop_, nullptr)->timers_.erase(key_);
}

EventLoop::EventLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  Require(epoll_.valid(), "epoll_create1");
}

void EventLoop::Control(int operation, int fd, uint32_t events, uint64_t generation) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = Pack(fd, generation);
  Require(::epoll_ctl(epoll_.get(), operation, fd, &event) == 0, "epoll_ctl");
}

void EventLoop::Watch(int fd, uint32_t events, Handler handler) {
  const uint64_t generation = next_generation_++ & 0xffffffff;
  Control(EPOLL_CTL_ADD, fd, events, generation);
  watched_[fd] = Watched{generation, std::make_shared<Handler>(std::move(handler))};
}

void EventLoop::Change(int fd, uint32_t events) {
  Control(EPOLL_CTL_MOD, fd, events, watched_.at(fd).generation);
}

void EventLoop::Forget(int fd) {
  if (watched_.erase(fd) > 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::Timer EventLoop::After(Milliseconds delay, std::function<void()> action) {
  const TimerKey key{Clock::now() + delay, next_timer_++};
  timers_.emplace(key, std::move(action));
  return Timer(this, key);
}

void EventLoop::OnSignals(std::initializer_list<int> signals, std::function<void(int)> handler) {
  sigset_t set;
  sigemptyset(&set);
  for (int number : signals) sigaddset(&set, number);
  Require(::sigprocmask(SIG_BLOCK, &set, nullptr) == 0, "sigprocmask");
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  Require(signals_.valid(), "signalfd");
  Watch(signals_.get(), EPOLLIN, [this, handler = std::move(handler)](uint32_t) {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      handler(static_cast<int>(info.ssi_signo));
    }
  });
}

int EventLoop::TimeoutUntilNextTimer() const {
  if (timers_.empty()) return -1;
  const auto left = timers_.begin()->first.first - Clock::now();
  // Rounded up: waking a fraction of a millisecond early would spin.
  const auto ms = std::chrono::ceil<Milliseconds>(left).count();
  return static_cast<int>(std::clamp<int64_t>(ms, 0, 1 << 30));
}

void EventLoop::RunDueTimers() {
  const auto now = Clock::now();
  while (running_ && !timers_.empty() && timers_.begin()->first.first <= now) {
    auto action = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    action();
  }
}

int EventLoop::Run() {
  running_ = true;
  std::array<epoll_event, 64> events;
  while (running_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), TimeoutUntilNextTimer());
    Require(count >= 0 || errno == EINTR, "epoll_wait");
    for (int i = 0; i < count && running_; ++i) {
      const auto found = watched_.find(static_cast<int>(events[i].data.u64 & 0xffffffff));
      if (found == watched_.end() || found->second.generation != events[i].data.u64 >> 32) continue;
      // Kept alive here: the handler may forget itself.
      const std::shared_ptr<Handler> handler = found->second.handler;
      (*handler)(events[i].events);
    }
    RunDueTimers();
  }
  return result_;
}

void EventLoop::Stop(int result) {
  running_ = false;
  result_ = result;
}

}  // namespace emu
