#include "src/domain/maintenance.h"

#include <algorithm>

namespace cd::domain {

namespace {

// One that says no revision is older than revisions. Without a UID nobody can say which pod is meant.
bool IsOutdated(const api::NodeDaemon& daemon, const std::string& revision) {
  return daemon.state != api::DaemonState::kAbsent && !daemon.pod_uid.empty() && daemon.revision != revision;
}

MaintenanceDecision Go(const api::ImexNode& node, const std::string& token) {
  const std::string former = api::PodToReplace(token);
  const api::NodeDaemon& daemon = node.status.daemon;
  if (daemon.pod_uid.empty() || daemon.pod_uid == former) {
    const bool acknowledged = node.status.maintenance_acknowledged == token;
    return {token, acknowledged ? former : ""};
  }
  // READY, as far as it has something to be READY for.
  const bool replaced = daemon.state == api::DaemonState::kReady || !node.domain;
  return {replaced ? "" : token};
}

bool IsBeingReplaced(const api::ImexNode& node) {
  return !api::PodToReplace(node.maintenance).empty() && api::UnderMaintenance(node);
}

}  // namespace

MaintenanceDecision DecideMaintenance(const MaintenanceInput& in) {
  const api::ImexNode& node = in.node;
  const std::string& standing = node.maintenance;
  if (!standing.empty()) return api::PodToReplace(standing).empty() ? MaintenanceDecision{standing} : Go(node, standing);
  // The IMEXNode with the wish was lost, and the plugin holds to its word.
  const std::string& word = node.status.maintenance_acknowledged;
  const std::string promised = api::PodToReplace(word);
  if (!promised.empty() && promised == node.status.daemon.pod_uid) return Go(node, word);
  const bool due = !in.revision.empty() && IsOutdated(node.status.daemon, in.revision) && !in.in_use && word.empty() &&
                   node.status.channels.empty();
  if (due && !in.may_begin) return {.token = "", .delete_pod = "", .waits = true};
  return {due ? api::ReplacementToken(node.status.daemon.pod_uid) : ""};
}

bool MayBeginMaintenance(const Clique& clique) {
  const auto under =
      std::count_if(clique.nodes.begin(), clique.nodes.end(), [](const NodePtr& node) { return IsBeingReplaced(*node); });
  return under == 0 || static_cast<std::size_t>(under) * 10 < clique.nodes.size();
}

}  // namespace cd::domain
