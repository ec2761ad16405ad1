#include "src/base/log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/base/manual_executor.h"

namespace cd {
namespace {

// The line `Log` writes for these arguments.
std::string Logged(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {}) {
  static const ManualClock clock;
  InitLog("test", LogLevel::kInfo, clock);
  testing::internal::CaptureStderr();
  Log(level, message, fields);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, one_json_line_with_typed_values) {
  const std::string line =
      Logged(LogLevel::kWarning, "claim \"refused\"", {{"claim", "ns/c"}, {"channel", 7}, {"ok", false}, {"s", 0.5}});
  EXPECT_EQ(
      line,
      "{\"ts\":\"2027-01-15T08:00:00.000000Z\",\"level\":\"warning\",\"component\":\"test\",\"msg\":\"claim \\\"refused\\\"\","
      "\"claim\":\"ns/c\",\"channel\":7,\"ok\":false,\"s\":0.5}\n");
}

TEST(Log, foreign_bytes_cannot_break_the_line) {
  const std::string line = Logged(LogLevel::kInfo, "x", {{"error", "a\nb\xff\x01"}});
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(nlohmann::json::parse(line)["error"], "a\nb\ufffd\x01");
}

TEST(Log, lines_below_the_level_are_dropped) {
  EXPECT_EQ(Logged(LogLevel::kDebug, "x"), "");
}

}  // namespace
}  // namespace cd
