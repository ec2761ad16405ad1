#include "src/daemon/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <optional>

namespace cd::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChildProcessTest : public ::testing::Test {
 protected:
  // Runs `script` in a shell until it ended; returns its output.
  std::string Run(const std::string& script, std::function<void(ChildProcess&)> meanwhile = nullptr) {
    std::string output;
    auto child = ChildProcess::Start(loop_, reaper_, {"sh", "-c", script},
                                     {[&](std::string_view chunk) {
                                        output += chunk;
                                        if (meanwhile) meanwhile(**child_);
                                      },
                                      [&](int status) {
                                        status_ = status;
                                        loop_.Stop();
                                      }});
    EXPECT_TRUE(child) << child.error().message;
    child_ = &*child;
    loop_.Run();
    return output;
  }

  EventLoop loop_;
  Reaper reaper_{loop_};
  std::unique_ptr<ChildProcess>* child_ = nullptr;
  std::optional<int> status_;
};

TEST_F(ChildProcessTest, output_and_errors_are_one_stream_and_complete_at_the_end) {
  EXPECT_EQ(Run("echo out; echo err >&2; exit 3"), "out\nerr\n");
  EXPECT_EQ(DescribeEnd(*status_), "exited with status 3");
}

TEST_F(ChildProcessTest, more_output_than_a_pipe_holds_arrives) {
  EXPECT_EQ(Run("head -c 300000 /dev/zero").size(), 300000u);
}

TEST_F(ChildProcessTest, hears_signals_this_process_blocks) {
  // SIGCHLD and SIGTERM are blocked in daemons; an inherited mask would make the child deaf.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  Run("echo ready; exec sleep 60", [](ChildProcess& child) { child.Signal(SIGTERM); });
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  EXPECT_EQ(DescribeEnd(*status_), "was killed by signal 15");
}

TEST_F(ChildProcessTest, an_heir_of_the_output_does_not_delay_the_end) {
  EXPECT_EQ(Run("echo before; sleep 5 & exit 0"), "before\n");
  EXPECT_EQ(*status_, 0);
}

TEST_F(ChildProcessTest, a_program_that_does_not_exist_fails_at_the_start) {
  const auto child = ChildProcess::Start(loop_, reaper_, {"/nonexistent/program"}, {});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(child.error().message, HasSubstr("/nonexistent/program"));
}

TEST_F(ChildProcessTest, a_destroyed_one_is_killed_and_says_nothing_more) {
  auto child = ChildProcess::Start(loop_, reaper_, {"sleep", "60"}, {[](std::string_view) {}, [](int) { FAIL(); }});
  ASSERT_TRUE(child);
  const pid_t pid = (*child)->pid();
  child->reset();
  // Reaped by the loop: the number is free again.
  std::function<void()> look = [&] { ::kill(pid, 0) == 0 ? (void)loop_.PostAfter(Duration(5), look) : loop_.Stop(); };
  loop_.Post(look);
  loop_.Run();
}

TEST(LineSplitter, joins_chunks_and_cuts_long_lines) {
  std::vector<std::string> lines;
  LineSplitter splitter([&](std::string_view line) { lines.emplace_back(line); });
  splitter.Feed("a");
  splitter.Feed("b\n\nc\nd");
  EXPECT_THAT(lines, ElementsAre("ab", "c"));
  splitter.Flush();
  EXPECT_THAT(lines, ElementsAre("ab", "c", "d"));
  splitter.Feed(std::string(LineSplitter::kMaxLine + 1, 'x'));
  EXPECT_EQ(lines[3].size(), LineSplitter::kMaxLine);
  EXPECT_EQ(lines[4], "x");
}

}  // namespace
}  // namespace cd::daemon
