#include "src/daemon/imex_programs.h"

#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "src/fabric/imex_control.h"

namespace cd::daemon {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Event MakeAnswer(const AskImex& question, Result<std::string> output) {
  if (question.question == Question::kState) {
    return StateAnswered{output ? fabric::ParseState(*output) : Result<std::string>(Fail(output.error()))};
  }
  using Report = Result<fabric::DomainReport>;
  return ReportAnswered{output ? fabric::ParseDomainReport(*output, question.own_index) : Report(Fail(output.error()))};
}

}  // namespace

LogLevel LevelOfLine(std::string_view line) {
  if (Contains(line, "[ERROR]") || Contains(line, "[CRITICAL]")) return LogLevel::kError;
  return Contains(line, "[WARNING]") ? LogLevel::kWarning : LogLevel::kInfo;
}

// Only a hint to look at the links earlier than otherwise: missing one costs time, not correctness.
bool SpeaksOfLink(std::string_view line) {
  return Contains(line, "Connection lost to node") || Contains(line, "Connection established to node") ||
         Contains(line, "Node disconnect event") || Contains(line, "notification of shutdown from node");
}

ImexProcess::ImexProcess(EventLoop& loop, Reaper& reaper, Callbacks callbacks)
    : loop_(loop), reaper_(reaper), callbacks_(std::move(callbacks)), lines_([this](std::string_view line) { OnLine(line); }) {}

Status ImexProcess::Start(const std::string& program, const std::string& config) {
  last_lines_.clear();
  auto child =
      ChildProcess::Start(loop_, reaper_, {program, "-c", config},
                          {[this](std::string_view chunk) { lines_.Feed(chunk); }, [this](int status) { OnEnded(status); }});
  if (!child) return Fail(child.error());
  child_ = std::move(*child);
  return {};
}

void ImexProcess::Signal(int signal) const {
  if (child_) child_->Signal(signal);
}

void ImexProcess::OnLine(std::string_view line) {
  Log(LevelOfLine(line), "nvidia-imex", {{"line", line}});
  last_lines_.emplace_back(line);
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
  if (SpeaksOfLink(line)) callbacks_.link_changed();
}

void ImexProcess::OnEnded(int wait_status) {
  lines_.Flush();
  const pid_t pid = child_->pid();
  child_.reset();
  std::string last;
  for (const std::string& line : last_lines_) last += (last.empty() ? "" : "\n") + line;
  LogInfo("nvidia-imex ended", {{"pid", pid}, {"how", DescribeEnd(wait_status)}, {"lastLines", last}});
  callbacks_.exited(DescribeEnd(wait_status) + (last_lines_.empty() ? "" : ": " + fabric::ExplainLastLine(last_lines_.back())));
}

ImexControl::ImexControl(EventLoop& loop, Reaper& reaper, std::string program, std::string config)
    : loop_(loop), reaper_(reaper), program_(std::move(program)), config_(std::move(config)) {}

ImexControl::~ImexControl() {
  if (call_) loop_.Cancel(call_->limit);
}

void ImexControl::Ask(AskImex question, Answer answer) {
  call_ = std::make_unique<Call>();
  call_->question = question;
  call_->answer = std::move(answer);
  // Naming the configuration gives the tool the address to ask: without one some versions try IPv6 first and fail.
  std::vector<std::string> arguments{program_, "-c", config_};
  if (question.question == Question::kState) {
    arguments.push_back("-q");
  } else {
    arguments.insert(arguments.end(), {"-N", "-j"});
  }
  const auto output = [this](std::string_view chunk) {
    if (call_->output.size() < kMaxOutput) call_->output += chunk;
  };
  auto child = ChildProcess::Start(loop_, reaper_, arguments, {output, [this](int status) { OnEnded(status); }});
  if (!child) {
    const auto failed = std::exchange(call_, nullptr);
    failed->answer(MakeAnswer(question, Fail(child.error())));
    return;
  }
  call_->child = std::move(*child);
  call_->limit = loop_.PostAfter(kLimit, [this] {
    call_->late = true;
    call_->child->Signal(SIGKILL);
  });
}

void ImexControl::OnEnded(int wait_status) {
  const auto call = std::exchange(call_, nullptr);
  loop_.Cancel(call->limit);
  Result<std::string> output = call->output;
  if (call->late) {
    output =
        Fail(ErrorCode::kDeadlineExceeded, "nvidia-imex-ctl did not answer within " + std::to_string(kLimit.count()) + " ms");
  } else if (wait_status != 0) {
    output = Fail(ErrorCode::kUnavailable, "nvidia-imex-ctl " + DescribeEnd(wait_status) + ": " + call->output.substr(0, 200));
  }
  call->answer(MakeAnswer(call->question, std::move(output)));
}

}  // namespace cd::daemon
