// The ResourceClaimTemplate through which pods join a ComputeDomain.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "src/api/resource_claim.h"

namespace cd::api {

// What the nodes of the cluster offer: one device with `slots` slots that claims share, or as many plain devices.
struct NodeDevices {
  int slots = kDefaultSlots;
  bool plain = false;
};

// One request `channel` for one device of our channel class, with the ComputeDomain's UID as opaque config, owned by the
// ComputeDomain. With isolationMode Domain it is for all slots of a node, so that the scheduler keeps everybody else away.
// Generated claims carry our labels and a copy of the ComputeDomain's own, which some schedulers select by.
nlohmann::json EncodeClaimTemplate(const ComputeDomain& cd, const NodeDevices& devices = {});
// The server took the template and left out that it wants all slots: it does not know devices that claims share.
bool DroppedCapacity(const nlohmann::json& stored_template);

}  // namespace cd::api
