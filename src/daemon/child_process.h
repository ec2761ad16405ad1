// Programs this process runs: start, output, signals, end.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/event_loop.h"
#include "src/base/fd.h"
#include "src/base/result.h"

namespace cd::daemon {

// Collects every child that ended, also orphans that fell to this process because it is PID 1 of its container.
// SIGCHLD must be blocked before the process has a second thread.
class Reaper {
 public:
  explicit Reaper(EventLoop& loop);
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  // `ended` gets waitpid's status, once, on the loop's thread.
  void Expect(pid_t pid, std::function<void(int wait_status)> ended);
  void Forget(pid_t pid);

 private:
  void Reap();

  EventLoop& loop_;
  Fd signals_;
  std::map<pid_t, std::function<void(int)>> expected_;
};

// One running program. Its standard output and error come as one stream; standard input is empty. It gets SIGTERM when this
// process dies. Destroying a ChildProcess that still runs kills it; its callbacks do not come any more.
class ChildProcess {
 public:
  struct Callbacks {
    std::function<void(std::string_view chunk)> output;
    // After the last output.
    std::function<void(int wait_status)> ended;
  };

  // `arguments[0]` is the program, looked up in PATH when it has no slash. The program itself failing to start is an error here.
  static Result<std::unique_ptr<ChildProcess>> Start(EventLoop& loop, Reaper& reaper, const std::vector<std::string>& arguments,
                                                     Callbacks callbacks);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void Signal(int signal) const;
  pid_t pid() const { return pid_; }

 private:
  ChildProcess(EventLoop& loop, Reaper& reaper, pid_t pid, Fd output, Callbacks callbacks);
  // False at the end of the stream.
  bool ReadSome();
  void CloseOutput();
  void Ended(int wait_status);

  EventLoop& loop_;
  Reaper& reaper_;
  pid_t pid_;
  Fd output_;
  Callbacks callbacks_;
  bool running_ = true;
};

// "exited with status 3" or "was killed by signal 9".
std::string DescribeEnd(int wait_status);

// Cuts a stream into lines of at most kMaxLine bytes; a longer one is delivered in pieces.
class LineSplitter {
 public:
  static constexpr std::size_t kMaxLine = 4096;
  using Sink = std::function<void(std::string_view line)>;

  explicit LineSplitter(Sink sink) : sink_(std::move(sink)) {}
  void Feed(std::string_view chunk);
  // The rest without a newline.
  void Flush();

 private:
  Sink sink_;
  std::string partial_;
};

}  // namespace cd::daemon
