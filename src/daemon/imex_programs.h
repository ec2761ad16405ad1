// nvidia-imex and nvidia-imex-ctl as running programs.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "src/base/log.h"
#include "src/daemon/child_process.h"
#include "src/daemon/inquiry.h"
#include "src/daemon/supervisor.h"

namespace cd::daemon {

// The one nvidia-imex. Its output goes line by line into our log.
class ImexProcess {
 public:
  struct Callbacks {
    std::function<void(std::string how)> exited;  // "exited with status 1: <last line>"
    std::function<void()> link_changed;           // a line said that a peer link came or went
  };
  static constexpr std::size_t kLastLines = 10;

  ImexProcess(EventLoop& loop, Reaper& reaper, Callbacks callbacks);

  // At most one runs at a time.
  Status Start(const std::string& program, const std::string& config);
  void Signal(int signal) const;
  pid_t pid() const { return child_ ? child_->pid() : -1; }

 private:
  void OnLine(std::string_view line);
  void OnEnded(int wait_status);

  EventLoop& loop_;
  Reaper& reaper_;
  Callbacks callbacks_;
  std::unique_ptr<ChildProcess> child_;
  LineSplitter lines_;
  std::deque<std::string> last_lines_;
};

// One call of nvidia-imex-ctl at a time, ended by force after five seconds.
class ImexControl {
 public:
  static constexpr Duration kLimit{5000};
  static constexpr std::size_t kMaxOutput = 4 << 20;
  using Answer = std::function<void(Event)>;

  ImexControl(EventLoop& loop, Reaper& reaper, std::string program, std::string config);
  ~ImexControl();

  // `answer` gets StateAnswered or ReportAnswered, later, on the loop's thread.
  void Ask(AskImex question, Answer answer);

 private:
  struct Call {
    AskImex question;
    Answer answer;
    std::string output;
    std::unique_ptr<ChildProcess> child;
    TimerId limit = 0;
    bool late = false;
  };
  void OnEnded(int wait_status);

  EventLoop& loop_;
  Reaper& reaper_;
  std::string program_;
  std::string config_;
  std::unique_ptr<Call> call_;
};

// The level nvidia-imex gave a line, for our log.
LogLevel LevelOfLine(std::string_view line);
bool SpeaksOfLink(std::string_view line);

}  // namespace cd::daemon
