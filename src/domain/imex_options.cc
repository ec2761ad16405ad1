#include "src/domain/imex_options.h"

#include <charconv>

namespace cd::domain {

using api::ImexConfig;

namespace {

// Branch of the driver whose nvidia-imex is the first known to read the option. Before it the daemon waited for the whole node
// map at start and had a connection timeout instead.
constexpr int kQuorumSince = 570;
constexpr int kGraceSince = 570;

// "580.105.08" → 580; nullopt: it does not begin with a number.
std::optional<int> BranchOf(const std::string& driver_version) {
  int branch = 0;
  const auto [end, error] = std::from_chars(driver_version.data(), driver_version.data() + driver_version.size(), branch);
  if (error != std::errc() || branch <= 0) return std::nullopt;
  return branch;
}

void Add(std::string& text, const std::string& option, const std::string& value, int since) {
  if (!text.empty()) text += ", ";
  text += option + ": " + value + " (known since driver " + std::to_string(since) + ")";
}

}  // namespace

ImexConfig OptionsOver(const ImexConfig& cluster, const std::optional<ImexConfig>& wishes) {
  if (!wishes) return cluster;
  ImexConfig out = cluster;
  if (!wishes->wait_for_quorum.empty()) out.wait_for_quorum = wishes->wait_for_quorum;
  if (wishes->node_disconnected_grace_seconds) out.node_disconnected_grace_seconds = wishes->node_disconnected_grace_seconds;
  if (wishes->log_level) out.log_level = wishes->log_level;
  return out;
}

bool SameOptions(const ImexConfig& a, const ImexConfig& b) {
  const ImexConfig defaults{kDefaultQuorum, kDefaultGraceSeconds, kDefaultImexLogLevel};
  return OptionsOver(defaults, a) == OptionsOver(defaults, b);
}

std::optional<std::string> WhyNotPossible(const ImexConfig& options, const std::string& field) {
  if (options.wait_for_quorum == "FULL") {
    return field +
           ".waitForQuorum: FULL waits for every line of the node map, and the map has spare lines for nodes that may come "
           "later: no daemon would ever be ready; use NONE or RECOVERY, and spec.gating to start pods together";
  }
  return std::nullopt;
}

std::optional<std::string> UnknownToDriver(const ImexConfig& options, const std::string& driver_version) {
  const auto branch = BranchOf(driver_version);
  if (!branch) return std::nullopt;
  std::string unknown;
  const std::string& quorum = options.wait_for_quorum;
  if (*branch < kQuorumSince && !quorum.empty() && quorum != kDefaultQuorum) Add(unknown, "waitForQuorum", quorum, kQuorumSince);
  const int grace = options.node_disconnected_grace_seconds.value_or(kDefaultGraceSeconds);
  if (*branch < kGraceSince && grace != kDefaultGraceSeconds) {
    Add(unknown, "nodeDisconnectedGraceSeconds", std::to_string(grace), kGraceSince);
  }
  if (unknown.empty()) return std::nullopt;
  return unknown;
}

}  // namespace cd::domain
