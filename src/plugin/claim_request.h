// From a ResourceClaim as the API has it to what Prepare must do. Pure; the first wall behind which nothing was written yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/api/resource_claim.h"
#include "src/plugin/checkpoint.h"

namespace cd::plugin {

struct ClaimRequest {
  api::ObjectRef claim;
  std::vector<ClaimDevice> devices;           // of this driver on this node
  std::optional<api::ChannelConfig> channel;  // nullopt: the daemon's claim
  int slots = 0;                              // of the node that it takes
};

// What the kubelet hands over becomes part of paths, requests and messages.
Status CheckRef(const api::ObjectRef& asked);

// `asked` is what the kubelet named, after CheckRef: a claim of that name with another UID is a different claim. Results of other
// drivers are passed over. `daemon_namespace` is the only one whose claims get the daemon device: it comes with the right to
// manage IMEX. Errors name field, value and remedy; kInvalidArgument ones cannot be cured by waiting.
Result<ClaimRequest> ReadClaimRequest(const api::ResourceClaim& claim, const api::ObjectRef& asked, const std::string& node,
                                      const std::string& daemon_namespace);

// The checks that can change while a Prepare waits: same life of the claim, still allocated to this node, not being deleted.
Status StillWanted(const api::ResourceClaim& claim, const api::ObjectRef& asked, const std::string& node);

}  // namespace cd::plugin
