#include "src/base/stop_signals.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

namespace cd {

StopSignals::StopSignals(EventLoop& loop, std::function<void()> stop) : loop_(loop) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_.Reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  loop_.Watch(fd_.get(), EPOLLIN, [this, stop = std::move(stop)](std::uint32_t) {
    signalfd_siginfo info;
    while (::read(fd_.get(), &info, sizeof info) > 0) {
    }
    stop();
  });
}

StopSignals::~StopSignals() {
  loop_.Unwatch(fd_.get());
}

}  // namespace cd
