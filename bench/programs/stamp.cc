// What a bench pod runs: the wall clock in nanoseconds as the first thing the container does, then nothing until SIGTERM.
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <ctime>

int main() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  // PID 1 has no default action for SIGTERM: it is blocked before anybody can know of this process, and waited for.
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  sigprocmask(SIG_BLOCK, &end, nullptr);
  char line[32];
  const int length = std::snprintf(line, sizeof line, "%lld%09ld\n", static_cast<long long>(now.tv_sec), now.tv_nsec);
  if (write(STDOUT_FILENO, line, static_cast<size_t>(length)) != length) return 1;
  int signal = 0;
  sigwait(&end, &signal);
  return 0;
}
