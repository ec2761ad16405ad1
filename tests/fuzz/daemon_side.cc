#include <algorithm>
#include <string>

#include "src/fabric/daemon_files.h"
#include "src/fabric/imex_control.h"
#include "tests/fuzz/fuzz.h"

namespace cd::fuzz {

namespace {

constexpr int kOwnIndex = 3;

bool IsWord(const std::string& text, std::size_t longest = 32) {
  return !text.empty() && text.size() <= longest &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

// Each line of the configuration is KEY=value: no value can begin a line of its own.
void RequireSettings(const std::string& config) {
  std::size_t begin = 0;
  for (std::size_t end = config.find('\n'); end != std::string::npos; begin = end + 1, end = config.find('\n', begin)) {
    const std::string key = config.substr(begin, std::min(config.find('=', begin), end) - begin);
    Require(IsWord(key, 64), "a line of the configuration sets a key: " + config.substr(begin, end - begin));
  }
  Require(begin == config.size(), "the configuration ends with a line end");
}

// Whatever nvidia-imex-ctl printed, the plugin can read the status the daemon makes of it.
void RequireReadable(const fabric::DaemonStatus& status) {
  const auto read = fabric::DecodeDaemonStatus(fabric::EncodeDaemonStatus(status));
  Require(read.has_value(), "a status made of foreign words can be read" + (read ? "" : ": " + read.error().message));
}

}  // namespace

void Desired(std::string_view input) {
  const auto desired = fabric::DecodeDesired(input);
  if (!desired) return RequireWords(desired.error(), input);
  const auto again = fabric::DecodeDesired(fabric::EncodeDesired(*desired));
  Require(again && *again == *desired, "what was read is written and read the same");
  RequireSettings(fabric::RenderConfig(desired->config, desired->tls, "10.0.0.1", fabric::ImexPathsIn("/run/imex")));
  if (!desired->domain) return;
  const std::string nodes = fabric::RenderNodes(*desired->domain);
  Require(std::count(nodes.begin(), nodes.end(), '\n') == desired->domain->slots, "the node map has a line for every slot");
  const auto addresses = fabric::SlotAddresses(*desired->domain, desired->hosts, "10.0.0.1");
  Require(addresses.size() == static_cast<std::size_t>(desired->domain->slots), "every slot has an address");
}

void DaemonStatus(std::string_view input) {
  const auto status = fabric::DecodeDaemonStatus(input);
  if (!status) return RequireWords(status.error(), input);
  const std::string text = fabric::EncodeDaemonStatus(*status);
  const auto again = fabric::DecodeDaemonStatus(text);
  Require(again.has_value(), "what was read is written so that it can be read");
  Require(fabric::EncodeDaemonStatus(*again) == text, "writing it once more changes nothing");
  Require(again->peers == status->peers && again->state == status->state, "no state is lost");
  const api::NodeDaemon daemon = fabric::ToNodeDaemon(*status);
  Require(std::is_sorted(daemon.connected.begin(), daemon.connected.end()), "connected members are sorted");
}

void ControlState(std::string_view input) {
  const auto state = fabric::ParseState(input);
  fabric::DaemonStatus status;
  if (state) {
    Require(IsWord(*state), "a state is one word");
    status.state = *state;
  } else {
    RequireWords(state.error(), input);
    RequirePrintable(state.error().message, 512);
    status.error = state.error().message;
  }
  RequireReadable(status);
}

void ControlReport(std::string_view input) {
  const auto report = fabric::ParseDomainReport(input, kOwnIndex);
  fabric::DaemonStatus status;
  if (!report) {
    RequireWords(report.error(), input);
    RequirePrintable(report.error().message, 512);
    status.error = report.error().message;
    return RequireReadable(status);
  }
  Require(IsWord(report->domain_state), "the domain's state is one word");
  for (const auto& [index, state] : report->connections) {
    Require(index >= 0 && index < fabric::kMaxNodeSlots && IsWord(state), "a connection is an index and a word");
    status.peers.push_back({index, state});
  }
  status.imex_version = report->version;
  RequireReadable(status);
}

void HostsFile(std::string_view input) {
  const std::vector<std::string> addresses{"10.0.0.1", fabric::kEmptySlotAddress};
  const std::string once = fabric::RenderHosts(input, "clique.1", addresses);
  Require(fabric::RenderHosts(once, "clique.1", addresses) == once, "the same members change nothing");
  Require(fabric::RemoveHostsBlock(once) == fabric::RemoveHostsBlock(input), "lines that are not ours stay");
  Require(once.find("10.0.0.1\t" + fabric::SlotHostName("clique.1", 0) + "\n") != std::string::npos, "our lines are there");
}

}  // namespace cd::fuzz
