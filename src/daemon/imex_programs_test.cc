// How failing programs are taken; the working ones are tested with the emulator in tests/daemon.
#include "src/daemon/imex_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/files.h"
#include "src/base/temp_dir.h"

namespace cd::daemon {
namespace {

using ::testing::HasSubstr;

class ImexControlTest : public ::testing::Test {
 protected:
  // Asks a tool that does what `script` says.
  Event Ask(const std::string& script, Question question = Question::kState) {
    EXPECT_TRUE(ReplaceFile(dir_ / "ctl", "#!/bin/sh\n" + script + "\n", 0755));
    ImexControl control(loop_, reaper_, (dir_ / "ctl").string(), "/run/config.cfg");
    Event event = Tick{};
    control.Ask({question, 0}, [&](Event answer) {
      event = std::move(answer);
      loop_.Stop();
    });
    loop_.Run();
    return event;
  }

  const TempDir temp_;
  const std::filesystem::path dir_ = temp_.path();
  EventLoop loop_;
  Reaper reaper_{loop_};
};

TEST_F(ImexControlTest, asks_with_the_configuration) {
  EXPECT_EQ(std::get<StateAnswered>(Ask(R"(test "$*" = "-c /run/config.cfg -q" && echo READY)")).state, "READY");
  EXPECT_TRUE(
      std::get<ReportAnswered>(Ask(R"(test "$*" = "-c /run/config.cfg -N -j" && echo '{"nodes":{"0":{}}}')", Question::kReport))
          .report);
}

TEST_F(ImexControlTest, a_failing_tool_is_an_error_with_its_words) {
  const auto state = std::get<StateAnswered>(Ask("echo Query Status returned error code: 14; exit 1")).state;
  ASSERT_FALSE(state);
  EXPECT_THAT(state.error().message, HasSubstr("status 1: Query Status returned error code: 14"));
}

TEST_F(ImexControlTest, a_tool_that_cannot_be_started_is_an_error) {
  ImexControl control(loop_, reaper_, (dir_ / "nothing").string(), "/run/config.cfg");
  bool answered = false;
  control.Ask({Question::kReport, 0}, [&](Event answer) { answered = !std::get<ReportAnswered>(answer).report; });
  EXPECT_TRUE(answered);
}

TEST_F(ImexControlTest, a_hanging_tool_is_ended_after_its_limit) {
  const SteadyTime begin = loop_.clock().Now();
  const auto report = std::get<ReportAnswered>(Ask("exec sleep 60", Question::kReport)).report;
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_LT(loop_.clock().Now() - begin, ImexControl::kLimit + Duration(3000));
}

TEST(LevelOfLine, follows_nvidia_imex) {
  EXPECT_EQ(LevelOfLine("[Sep 18 2026 06:40:33] [INFO] [tid 77] text"), LogLevel::kInfo);
  EXPECT_EQ(LevelOfLine("[Sep 18 2026 06:40:33] [WARNING] [tid 77] text"), LogLevel::kWarning);
  EXPECT_EQ(LevelOfLine("[Sep 18 2026 06:40:33] [CRITICAL] [tid 77] text"), LogLevel::kError);
  EXPECT_EQ(LevelOfLine("free text"), LogLevel::kInfo);
}

TEST(SpeaksOfLink, knows_the_lines_of_links) {
  EXPECT_TRUE(SpeaksOfLink("[INFO] Connection lost to node 17: ip:50000"));
  EXPECT_TRUE(SpeaksOfLink("[INFO] Received notification of shutdown from node 1 - name"));
  EXPECT_FALSE(SpeaksOfLink("[INFO] GPU event successfully subscribed"));
}

}  // namespace
}  // namespace cd::daemon
