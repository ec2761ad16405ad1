// What the command lines of all our programs have in common. For the main functions alone: it brings CLI11 with it.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>

#include "src/base/log.h"

namespace cd {

inline void AddCommonFlags(CLI::App& app, LogLevel& level) {
  const std::map<std::string, LogLevel> levels{
      {"debug", LogLevel::kDebug}, {"info", LogLevel::kInfo}, {"warn", LogLevel::kWarning}, {"error", LogLevel::kError}};
  app.add_option("--log-level", level, "debug, info, warn or error")
      ->envname("CD_LOG_LEVEL")
      ->transform(CLI::CheckedTransformer(levels));
  app.set_version_flag("--version", CD_VERSION);
}

// nullopt: go on; else the exit code. CLI11's own codes differ by kind of error; a bad flag is 2 in all our programs.
inline std::optional<int> ParseFlags(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace cd
