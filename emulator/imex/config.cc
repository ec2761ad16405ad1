#include "emulator/imex/config.h"

#include <charconv>
#include <functional>
#include <map>
#include <sstream>

namespace emu::imex {
namespace {

using Apply = std::function<bool(const std::string& value, Config& config)>;

bool ParseInt(const std::string& text, int low, int high, int* number) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *number);
  return parsed.ec == std::errc() && parsed.ptr == end && *number >= low && *number <= high;
}

Apply Text(std::string Config::* member) {
  return [member](const std::string& value, Config& config) {
    config.*member = value;
    return value.size() <= 256;
  };
}

Apply Number(int Config::* member, int low, int high) {
  return [=](const std::string& value, Config& config) { return ParseInt(value, low, high, &(config.*member)); };
}

Apply Flag(bool Config::* member) {
  return [member](const std::string& value, Config& config) {
    config.*member = value == "1";
    return value == "0" || value == "1";
  };
}

bool ApplyQuorum(const std::string& value, Config& config) {
  static const std::map<std::string, Quorum> kWords = {
      {"NONE", Quorum::kNone}, {"RECOVERY", Quorum::kRecovery}, {"FULL", Quorum::kFull}};
  const auto found = kWords.find(value);
  if (found == kWords.end()) return false;
  config.quorum = found->second;
  return true;
}

bool ApplyCommandPort(const std::string& value, Config& config) {
  config.cmd_port.reset();
  int port = 0;
  if (value.empty()) return true;
  if (!ParseInt(value, 0, 65535, &port)) return false;
  config.cmd_port = port;
  return true;
}

// Keys whose effect lies outside what is emulated: statistics and the material of authentication, which does not start.
bool Ignore(const std::string&, Config&) {
  return true;
}

const std::map<std::string, Apply>& Keys() {
  static const std::map<std::string, Apply> kKeys = {
      {"LOG_LEVEL", Number(&Config::log_level, 0, 4)},
      {"LOG_FILE_NAME", Text(&Config::log_file)},
      {"STATS_FILE_NAME", Ignore},
      {"LOG_APPEND_TO_LOG", Flag(&Config::log_append)},
      {"LOG_FILE_MAX_SIZE", Number(&Config::log_max_megabytes, 0, 1 << 20)},
      {"LOG_MAX_ROTATE_COUNT", Number(&Config::log_rotations, 0, 1 << 20)},
      {"LOG_USE_SYSLOG", Flag(&Config::log_syslog)},
      {"DAEMONIZE", Flag(&Config::daemonize)},
      {"BIND_INTERFACE_IP", Text(&Config::bind_ip)},
      {"SERVER_PORT", Number(&Config::server_port, 0, 65535)},
      {"IMEX_NODE_CONFIG_FILE", Text(&Config::node_file)},
      {"NETWORK_INTERFACE", Text(&Config::interface)},
      {"IMEX_WAIT_FOR_QUORUM", ApplyQuorum},
      {"IMEX_NODE_DISCONNECTED_GRACE_TIME", Number(&Config::grace_seconds, -1, 1 << 30)},
      {"IMEX_ENABLE_AUTH_ENCRYPTION", Flag(&Config::auth_enabled)},
      {"IMEX_AUTH_ENCRYPTION_MODE", Text(&Config::auth_mode)},
      {"IMEX_AUTH_SOURCE", Text(&Config::auth_source)},
      {"IMEX_SERVER_KEY", Ignore},
      {"IMEX_SERVER_CERT", Ignore},
      {"IMEX_SERVER_CERT_AUTH", Ignore},
      {"IMEX_CLIENT_KEY", Ignore},
      {"IMEX_CLIENT_CERT", Ignore},
      {"IMEX_CLIENT_CERT_AUTH", Ignore},
      {"IMEX_SECURITY_TARGET_OVERRIDE", Ignore},
      {"IMEX_GSS_SERVICE_NAME", Ignore},
      {"IMEX_GSS_TIMEOUT_SEC", Ignore},
      {"IMEX_GSS_RETRY_INTERVAL_SEC", Ignore},
      {"IMEX_GSS_SEC_CONTEXT_LIFETIME_SEC", Ignore},
      {"IMEX_GSS_SHUTDOWN_ON_FAILURE", Ignore},
      {"IMEX_CMD_ENABLED", Flag(&Config::cmd_enabled)},
      {"IMEX_CMD_BIND_INTERFACE_IP", Text(&Config::cmd_bind_ip)},
      {"IMEX_CMD_PORT", ApplyCommandPort},
      {"IMEX_CMD_UNIX_DOMAIN_PATH", Text(&Config::cmd_unix_path)},
      {"IMEX_CONN_WAIT_TIMEOUT", Ignore},
  };
  return kKeys;
}

std::string Trim(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

Result<ParsedConfig> ParseConfig(const std::string& text) {
  ParsedConfig parsed;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = Trim(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t equals = line.find('=');
    const std::string where = "line " + std::to_string(number) + ": ";
    if (equals == std::string::npos) return Fail(where + "not KEY=VALUE: " + line);
    const std::string key = Trim(line.substr(0, equals));
    const std::string value = Trim(line.substr(equals + 1));
    const auto found = Keys().find(key);
    if (found == Keys().end()) {
      parsed.warnings.push_back(where + "unknown key " + key);
    } else if (!found->second(value, parsed.config)) {
      return Fail(where + "invalid value \"" + value + "\" of " + key);
    }
  }
  return parsed;
}

Result<void> CheckConfig(const Config& config) {
  if (!config.auth_enabled) return {};
  const bool tls = config.auth_mode == "SSL_TLS";
  if (!tls && config.auth_mode != "GSS_AUTH_ENCRYPT" && config.auth_mode != "GSS_AUTH_ONLY") {
    return Fail("invalid IMEX_AUTH_ENCRYPTION_MODE \"" + config.auth_mode + "\"");
  }
  if (tls && config.auth_source != "FILE" && config.auth_source != "ENV_PATH" && config.auth_source != "ENV_VAL") {
    return Fail("invalid IMEX_AUTH_SOURCE \"" + config.auth_source + "\"");
  }
  return Fail("this emulator cannot authenticate or encrypt (" + config.auth_mode + "): set IMEX_ENABLE_AUTH_ENCRYPTION=0");
}

}  // namespace emu::imex
