// Command line of nvidia-imex-ctl.
#pragma once

#include <optional>
#include <string>

#include "emulator/base/result.h"

namespace emu::imexctl {

enum class Action { kQuery, kDomainOnce, kDomainContinuously, kSubscribe };

struct TcpTarget {
  std::string ip;
  int port;
};

struct Arguments {
  Action action = Action::kQuery;
  // Which daemon to ask: at most one of these; none: the default configuration file.
  std::optional<std::string> config;
  std::optional<TcpTarget> tcp;
  std::optional<std::string> unix_path;
  bool json = false;
  bool host_names = false;
  std::optional<int> timeout_ms;  // of a subscription
};

extern const char* const kUsage;

// The error is empty where only the usage is wanted.
Result<Arguments> ParseArguments(int argc, char** argv);

}  // namespace emu::imexctl
