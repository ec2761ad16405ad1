#include "src/daemon/child_process.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

namespace cd::daemon {
namespace {

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> OpenPipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Fail(ErrnoError(errno, "pipe"));
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// Between fork and exec: system calls only.
[[noreturn]] void BecomeProgram(char* const* arguments, pid_t parent, int output, int error_pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);  // the mask survives exec, and ours blocks what it must hear
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execvp(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] ssize_t n = ::write(error_pipe, &error, sizeof error);
  ::_exit(127);
}

// Waits for the exec: nothing arrives when it succeeded, errno otherwise.
int ExecError(const Fd& read_end) {
  int error = 0;
  ssize_t n;
  do {
    n = ::read(read_end.get(), &error, sizeof error);
  } while (n < 0 && errno == EINTR);
  return n == sizeof error ? error : 0;
}

}  // namespace

Reaper::Reaper(EventLoop& loop) : loop_(loop) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.Reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  loop_.Watch(signals_.get(), EPOLLIN, [this](std::uint32_t) { Reap(); });
}

Reaper::~Reaper() {
  loop_.Unwatch(signals_.get());
}

void Reaper::Expect(pid_t pid, std::function<void(int)> ended) {
  expected_[pid] = std::move(ended);
}

void Reaper::Forget(pid_t pid) {
  expected_.erase(pid);
}

void Reaper::Reap() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) > 0) {
  }
  int status = 0;
  // One signal may stand for several children.
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    auto node = expected_.extract(pid);
    if (!node.empty()) node.mapped()(status);
  }
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(EventLoop& loop, Reaper& reaper,
                                                          const std::vector<std::string>& arguments, Callbacks callbacks) {
  auto output = OpenPipe();
  auto failure = OpenPipe();
  if (!output) return Fail(output.error());
  if (!failure) return Fail(failure.error());
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Fail(ErrnoError(errno, "fork"));
  if (pid == 0) BecomeProgram(words.data(), parent, output->write.get(), failure->write.get());
  failure->write.Reset();
  if (const int error = ExecError(failure->read); error != 0) {
    ::waitpid(pid, nullptr, 0);
    return Fail(ErrnoError(error, "start " + arguments[0]));
  }
  ::fcntl(output->read.get(), F_SETFL, O_NONBLOCK);
  return std::unique_ptr<ChildProcess>(new ChildProcess(loop, reaper, pid, std::move(output->read), std::move(callbacks)));
}

ChildProcess::ChildProcess(EventLoop& loop, Reaper& reaper, pid_t pid, Fd output, Callbacks callbacks)
    : loop_(loop), reaper_(reaper), pid_(pid), output_(std::move(output)), callbacks_(std::move(callbacks)) {
  reaper_.Expect(pid_, [this](int status) { Ended(status); });
  loop_.Watch(output_.get(), EPOLLIN, [this](std::uint32_t) {
    if (!ReadSome()) CloseOutput();
  });
}

ChildProcess::~ChildProcess() {
  CloseOutput();
  if (!running_) return;
  reaper_.Forget(pid_);
  ::kill(pid_, SIGKILL);
}

void ChildProcess::Signal(int signal) const {
  // Once reaped the number may belong to somebody else.
  if (running_) ::kill(pid_, signal);
}

bool ChildProcess::ReadSome() {
  char buffer[16384];
  const ssize_t n = ::read(output_.get(), buffer, sizeof buffer);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n > 0) callbacks_.output(std::string_view(buffer, static_cast<std::size_t>(n)));
  return n > 0;
}

void ChildProcess::CloseOutput() {
  if (!output_) return;
  loop_.Unwatch(output_.get());
  output_.Reset();
}

void ChildProcess::Ended(int wait_status) {
  running_ = false;
  // What it wrote is in the pipe by now. An heir of the pipe may go on writing, so a fixed amount is read, not until the end.
  constexpr int kChunks = 16;  // 16 times 16 KiB: four times what a pipe holds
  for (int i = 0; output_ && i < kChunks; ++i) {
    if (!ReadSome()) CloseOutput();
  }
  CloseOutput();
  // The callback may destroy this.
  const auto ended = std::move(callbacks_.ended);
  ended(wait_status);
}

std::string DescribeEnd(int wait_status) {
  if (WIFSIGNALED(wait_status)) return "was killed by signal " + std::to_string(WTERMSIG(wait_status));
  return "exited with status " + std::to_string(WEXITSTATUS(wait_status));
}

void LineSplitter::Feed(std::string_view chunk) {
  for (std::size_t end; (end = chunk.find('\n')) != std::string_view::npos; chunk.remove_prefix(end + 1)) {
    partial_ += chunk.substr(0, end);
    Flush();
  }
  partial_ += chunk;
  if (partial_.size() > kMaxLine) Flush();
}

void LineSplitter::Flush() {
  std::string_view rest = partial_;
  while (!rest.empty()) {
    sink_(rest.substr(0, kMaxLine));
    rest.remove_prefix(std::min(rest.size(), kMaxLine));
  }
  partial_.clear();
}

}  // namespace cd::daemon
