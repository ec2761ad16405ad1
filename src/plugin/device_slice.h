// The devices of one node as a ResourceSlice. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "src/api/meta.h"

namespace cd::plugin {

enum class DeviceMode {
  kMulti,  // one device `channel-0` that many claims share, one slot each
  kPlain,  // as many exclusive devices as slots: for servers and schedulers without multi-allocatable devices
};

struct SliceInput {
  std::string node;
  // Neither: nothing is offered, the pool stays (an empty pool is not a missing one).
  std::string clique_id;        // of the node's daemon; empty: it has none
  bool offers_channel = false;  // without a clique: to ComputeDomains that take nodes without fabric
  int slots = 32;
  DeviceMode mode = DeviceMode::kMulti;
};

// `spec.devices`.
nlohmann::json SliceDevices(const SliceInput& input);
// All but the owner; the node's pool is this one slice. `name` is a function of node and driver, so that creating it twice is
// harmless.
nlohmann::json BuildSlice(const SliceInput& input, std::int64_t generation);
std::string SliceName(const std::string& node);

// True when everything `wanted` says stands in `actual`. What the server adds (defaults) does not count.
bool Covers(const nlohmann::json& actual, const nlohmann::json& wanted);
// The server took the object and left out what makes `channel-0` shareable.
bool DroppedSharing(const nlohmann::json& stored);

}  // namespace cd::plugin
