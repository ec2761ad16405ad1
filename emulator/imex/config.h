// config.cfg of nvidia-imex: KEY=VALUE lines, read once at start.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emulator/base/result.h"

namespace emu::imex {

enum class Quorum { kNone, kRecovery, kFull };

struct Config {
  int log_level = 4;  // 0 off, 1 critical, 2 error, 3 warning, 4 info
  std::string log_file = "/var/log/nvidia-imex.log";
  bool log_append = true;
  int log_max_megabytes = 1024;
  int log_rotations = 3;
  bool log_syslog = false;
  bool daemonize = true;

  std::string bind_ip;  // empty: the node file tells
  int server_port = 50000;
  std::string node_file = "/etc/nvidia-imex/nodes_config.cfg";
  std::string interface;  // scope of an IPv6 link-local address
  Quorum quorum = Quorum::kRecovery;
  int grace_seconds = -1;  // from losing a peer to invalidating its exports; -1: never

  bool auth_enabled = false;
  std::string auth_mode = "SSL_TLS";
  std::string auth_source;

  bool cmd_enabled = true;
  std::string cmd_bind_ip;              // empty: all interfaces
  std::optional<int> cmd_port = 50005;  // empty: unix socket only
  std::string cmd_unix_path;
};

struct ParsedConfig {
  Config config;
  std::vector<std::string> warnings;  // of keys that are not known
};

// The error names line, key and value.
Result<ParsedConfig> ParseConfig(const std::string& text);

// Is what the keys ask for together possible here? Names the first reason why not.
Result<void> CheckConfig(const Config& config);

}  // namespace emu::imex
