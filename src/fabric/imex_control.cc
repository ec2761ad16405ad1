#include "src/fabric/imex_control.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "src/base/json_reader.h"
#include "src/base/json_text.h"
#include "src/base/text.h"

namespace cd::fabric {
namespace {

using nlohmann::json;

constexpr std::string_view kBlockBegin = "# BEGIN computedomain IMEX members";
constexpr std::string_view kBlockEnd = "# END computedomain IMEX members";
// 24 slots of 24 connections need 50 KiB; the rest is room for longer maps.
constexpr std::size_t kMaxReport = 4 << 20;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

bool IsWord(std::string_view text) {
  return !text.empty() && text.size() <= 32 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

std::string Excerpt(std::string_view text) {
  return "\"" + Printable(Trim(text), 200) + "\"";
}

// A state word of foreign JSON; anything else becomes UNKNOWN rather than failing the whole report.
std::string WordOf(const json& object, const char* field) {
  const std::string& word = TextOf(object, field);
  return IsWord(word) ? word : "UNKNOWN";
}

std::optional<int> IndexOf(std::string_view key) {
  int index = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc{} || end != key.data() + key.size() || index < 0 || index >= kMaxNodeSlots) return std::nullopt;
  return index;
}

// One certificate serves both directions: every daemon is a server and a client of its peers.
void AppendTls(std::string& text, const DesiredTls& tls) {
  text += "IMEX_ENABLE_AUTH_ENCRYPTION=1\nIMEX_AUTH_ENCRYPTION_MODE=SSL_TLS\nIMEX_AUTH_SOURCE=FILE\n";
  for (const char* role : {"IMEX_SERVER_", "IMEX_CLIENT_"}) {
    text.append(role).append("KEY=").append(tls.key).append("\n");
    text.append(role).append("CERT=").append(tls.certificate).append("\n");
    text.append(role).append("CERT_AUTH=").append(tls.authority).append("\n");
  }
}

}  // namespace

ImexPaths ImexPathsIn(const std::string& run_dir) {
  return {run_dir + "/config.cfg", run_dir + "/nodes.cfg", run_dir + "/imex_ctl.sock"};
}

std::string DomainHash(std::string_view domain_name) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(StableHash(domain_name)));
  return std::string(text + 6);  // the low 40 bits
}

std::string SlotHostName(std::string_view domain_name, int index) {
  char number[16];
  std::snprintf(number, sizeof number, "%04d", index);
  return "imex-" + DomainHash(domain_name) + "-" + number;
}

std::string RenderNodes(const DesiredDomain& domain) {
  std::string text;
  for (int index = 0; index < domain.slots; ++index) text += SlotHostName(domain.name, index) + "\n";
  return text;
}

std::string RenderConfig(const DesiredConfig& config, const std::optional<DesiredTls>& tls, const std::string& address,
                         const ImexPaths& paths) {
  std::string text;
  const auto line = [&text](std::string_view key, std::string_view value) {
    text += std::string(key) + "=" + std::string(value) + "\n";
  };
  line("LOG_LEVEL", std::to_string(config.log_level));
  line("LOG_FILE_NAME", "");  // empty: stderr, which the daemon forwards
  line("STATS_FILE_NAME", "");
  line("LOG_APPEND_TO_LOG", "0");
  line("LOG_USE_SYSLOG", "0");
  line("DAEMONIZE", "0");
  line("BIND_INTERFACE_IP", address);
  line("SERVER_PORT", std::to_string(config.server_port));
  line("IMEX_NODE_CONFIG_FILE", paths.nodes);
  line("IMEX_WAIT_FOR_QUORUM", config.wait_for_quorum);
  line("IMEX_NODE_DISCONNECTED_GRACE_TIME", std::to_string(config.node_disconnected_grace_seconds));
  line("IMEX_CMD_ENABLED", "1");
  line("IMEX_CMD_BIND_INTERFACE_IP", address);
  line("IMEX_CMD_PORT", std::to_string(config.command_port));
  line("IMEX_CMD_UNIX_DOMAIN_PATH", paths.command_socket);
  if (tls) {
    AppendTls(text, *tls);
  } else {
    line("IMEX_ENABLE_AUTH_ENCRYPTION", "0");
  }
  return text;
}

std::vector<std::string> SlotAddresses(const DesiredDomain& domain, const std::vector<DesiredHost>& hosts,
                                       const std::string& own_address) {
  std::vector<std::string> addresses(static_cast<std::size_t>(domain.slots), kEmptySlotAddress);
  for (const DesiredHost& host : hosts) {
    if (host.index >= 0 && host.index < domain.slots) addresses[static_cast<std::size_t>(host.index)] = host.address;
  }
  addresses[static_cast<std::size_t>(domain.index)] = own_address;
  return addresses;
}

std::string RemoveHostsBlock(std::string_view current) {
  std::string kept;
  bool inside = false;
  while (!current.empty()) {
    const std::size_t end = current.find('\n');
    const std::string_view line = current.substr(0, end);
    current = end == std::string_view::npos ? std::string_view{} : current.substr(end + 1);
    if (Trim(line) == kBlockBegin) inside = true;
    if (!inside) kept += std::string(line) + "\n";
    if (Trim(line) == kBlockEnd) inside = false;
  }
  return kept;
}

std::string RenderHosts(std::string_view current, std::string_view domain_name, const std::vector<std::string>& addresses) {
  std::string text = RemoveHostsBlock(current);
  text += std::string(kBlockBegin) + "\n";
  for (std::size_t index = 0; index < addresses.size(); ++index) {
    text += addresses[index] + "\t" + SlotHostName(domain_name, static_cast<int>(index)) + "\n";
  }
  text += std::string(kBlockEnd) + "\n";
  return text;
}

std::string ExplainLastLine(std::string_view line) {
  std::string_view words = Trim(line);
  // [time] [level] [thread …]
  for (auto end = words.find(']'); words.starts_with('[') && end != std::string_view::npos; end = words.find(']')) {
    if (Trim(words.substr(end + 1)).empty()) break;
    words = Trim(words.substr(end + 1));
  }
  std::string out(words);
  // The kernel takes one IMEX daemon.
  if (words.find("NV_ERR_IN_USE") != std::string_view::npos) {
    out += "; another nvidia-imex runs on this node, perhaps as a service of the host: stop and disable it";
  }
  return out;
}

Result<std::string> ParseState(std::string_view output) {
  const std::string_view word = Trim(output);
  if (IsWord(word)) return std::string(word);
  return Fail(ErrorCode::kUnavailable, "nvidia-imex-ctl -q printed " + Excerpt(output));
}

Result<DomainReport> ParseDomainReport(std::string_view output, int own_index) {
  const auto parsed = ParseJson(Trim(output), kMaxReport);
  if (!parsed || !parsed->is_object()) {
    return Fail(ErrorCode::kUnavailable, "nvidia-imex-ctl -N -j printed " + Excerpt(output));
  }
  const json& nodes = MemberOf(*parsed, "nodes");
  if (!nodes.is_object()) {
    return Fail(ErrorCode::kUnavailable, "nvidia-imex-ctl -N -j names no nodes: " + Excerpt(output));
  }
  DomainReport report;
  report.domain_state = WordOf(*parsed, "status");
  const json& own = MemberOf(nodes, std::to_string(own_index).c_str());
  if (!own.is_object()) {
    return Fail(ErrorCode::kUnavailable, "nvidia-imex-ctl -N -j has no node " + std::to_string(own_index));
  }
  report.version = TextOf(own, "version").substr(0, 64);
  const json& connections = MemberOf(own, "connections");
  if (!connections.is_object()) return report;
  for (const auto& [key, connection] : connections.items()) {
    const auto index = IndexOf(key);
    if (index && connection.is_object()) report.connections[*index] = WordOf(connection, "status");
  }
  return report;
}

}  // namespace cd::fabric
