// partitionPolicy Single: the live reads without which status.partition does not change. See "Leases that withhold, and nodes
// without one" in docs/protocol.md.
#pragma once

#include <string>

#include "src/controller/cluster.h"

namespace cd::controller {

// May the ComputeDomain's partition become `to` (empty: none), which the decision chose from the cache? kConflict: a pod is in
// the way that the cache has not seen yet; its event brings the ComputeDomain back. Worker's thread only, blocks: one LIST of the
// namespace's claims, and one of IMEXNodes where a pod might be elsewhere. Writes nothing.
Status MayChangePartition(Cluster& cluster, const World& world, const api::ComputeDomain& cd, const std::string& to);

}  // namespace cd::controller
