// What the controller keeps of a ResourceClaim. Every claim of the cluster is watched, so this is small.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/api/resource_claim.h"

namespace cd::controller {

struct ChannelClaim {
  api::ObjectMeta meta;                      // key, uid, resourceVersion, deleting only
  std::string node;                          // where it is allocated; empty: nothing of ours
  std::optional<api::ChannelConfig> config;  // nullopt: no channel, or a config that Prepare refuses in its own words
  std::vector<api::ObjectRef> pods;          // that reserve it
  int slots = 0;                             // of the node that it takes

  // Allocated and reserved: some pod's containers are about to start, run, or end.
  bool InUse() const { return config && !node.empty() && !pods.empty() && !meta.deleting; }
  bool operator==(const ChannelClaim& other) const {
    return meta.uid == other.meta.uid && meta.deleting == other.meta.deleting && node == other.node && config == other.config &&
           pods == other.pods && slots == other.slots;
  }
};

Result<ChannelClaim> DecodeChannelClaim(const nlohmann::json& object);

// Only the metadata of a ResourceClaimTemplate matters here: its spec is ours and immutable.
struct ClaimTemplate {
  api::ObjectMeta meta;
};

Result<ClaimTemplate> DecodeClaimTemplate(const nlohmann::json& object);

}  // namespace cd::controller
