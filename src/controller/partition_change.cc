#include "src/controller/partition_change.h"

#include <algorithm>
#include <set>
#include <vector>

namespace cd::controller {

namespace {

bool IsUsedBy(const ChannelClaim& claim, const api::ComputeDomain& cd) {
  return claim.InUse() && claim.config->domain_id == cd.meta.uid;
}

// By the cache all pods have left the partition, and others wait elsewhere. The cache may not have seen the newest ones yet, and
// a second controller that has must not be overruled.
Status MayLeave(const World& world, const api::ComputeDomain& cd, const std::vector<ChannelClaim>& claims) {
  const std::string& partition = cd.status.partition;
  for (const ChannelClaim& claim : claims) {
    if (IsUsedBy(claim, cd) && world.MayBeIn(claim.node, partition))
      return Fail(ErrorCode::kConflict, "a pod of the ComputeDomain is in partition " + partition);
  }
  return {};
}

bool HoldsOutside(const api::ImexNode& node, const api::ComputeDomain& cd, const std::string& partition) {
  const auto& held = node.status.channels;
  return std::any_of(held.begin(), held.end(), [&](const api::NodeChannel& entry) {
    return entry.compute_domain_uid == cd.meta.uid && api::IdentityOf(entry.domain).clique_id != partition;
  });
}

// No lease is Active, so no Prepare passes its check from now on. One that has passed it reported its channel before, and its
// claim was in use: lists that begin now show both. What is left of a pod without claim runs out, and keeps nobody waiting.
Status MayEnter(Cluster& cluster, const World& world, const api::ComputeDomain& cd, const std::vector<ChannelClaim>& claims,
                const std::string& partition) {
  std::set<std::string> elsewhere;
  for (const ChannelClaim& claim : claims) {
    if (IsUsedBy(claim, cd) && !world.MustBeIn(claim.node, partition)) elsewhere.insert(claim.node);
  }
  if (elsewhere.empty()) return {};
  const auto nodes = cluster.ListNodes();
  if (!nodes) return Fail(nodes.error());
  for (const domain::NodePtr& node : *nodes) {
    if (elsewhere.contains(node->meta.name) && HoldsOutside(*node, cd, partition))
      return Fail(ErrorCode::kConflict, "a pod of the ComputeDomain has begun on node " + node->meta.name);
  }
  return {};
}

}  // namespace

Status MayChangePartition(Cluster& cluster, const World& world, const api::ComputeDomain& cd, const std::string& to) {
  const auto claims = cluster.ListClaims(cd.meta.ns);
  if (!claims) return Fail(claims.error());
  return cd.status.partition.empty() ? MayEnter(cluster, world, cd, *claims, to) : MayLeave(world, cd, *claims);
}

}  // namespace cd::controller
