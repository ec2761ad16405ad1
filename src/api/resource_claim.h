// The parts of resource.k8s.io/v1 ResourceClaim this driver reads, and the opaque configs inside it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/api/compute_domain.h"
#include "src/api/meta.h"

namespace cd::api {

// Capacity of the device that claims share: one slot a claim, all of them for a claim that wants the node for itself.
inline constexpr char kSlotsCapacity[] = "slots";
inline constexpr int kDefaultSlots = 32;

// resource.nvidia.com/v1beta1 ComputeDomainChannelConfig
struct ChannelConfig {
  std::string domain_id;  // UID of the ComputeDomain
  AllocationMode allocation_mode = AllocationMode::kSingle;
  bool operator==(const ChannelConfig&) const = default;
};

// resource.nvidia.com/v1beta1 ComputeDomainDaemonConfig. The pre-warmed daemon's claim carries no config at all.
struct DaemonConfig {
  std::string domain_id;
  bool operator==(const DaemonConfig&) const = default;
};

using OpaqueConfig = std::variant<ChannelConfig, DaemonConfig>;

// Strict: unknown fields, wrong enum or case, a domainID that is no UUID are errors that name field, value and remedy.
// The one validator for admission and Prepare.
Result<OpaqueConfig> DecodeOpaqueConfig(const nlohmann::json& parameters);
nlohmann::json EncodeChannelConfig(const ChannelConfig& config);

// The devices of a node: `channel-0`, further ones where the driver publishes plain devices, and `daemon`.
inline constexpr char kDaemonDevice[] = "daemon";
std::string ChannelDevice(int number);
bool IsChannelDevice(std::string_view device);

struct AllocationResult {
  std::string request;  // `a` or `a/sub`
  std::string driver;
  std::string pool;
  std::string device;
  std::optional<std::string> share_id;
  std::optional<int> slots;  // consumed capacity of a device that claims share; nullopt: the device is the claim's alone
};

// One entry of status.allocation.devices.config of our driver; foreign drivers' entries are dropped while decoding.
struct AllocationConfig {
  std::vector<std::string> requests;  // empty: all requests
  bool from_claim = false;            // source FromClaim (else FromClass)
  std::string parameters;             // raw JSON of opaque.parameters, decoded by DecodeOpaqueConfig
};

struct ResourceClaim {
  ObjectMeta meta;
  bool allocated = false;
  std::vector<AllocationResult> results;  // of every driver
  std::vector<AllocationConfig> configs;
  std::vector<ObjectRef> reserved_for;  // pods; `ns` is the claim's
  std::string node_name;  // when the allocation's node selector names exactly one node (kubernetes.io/hostname or metadata.name);
                          // else empty

  // Pool of our driver's results: the node's name, since pools of node-local devices are named after their node. Empty if none is
  // ours.
  std::string PoolOfDriver() const;
  // Slots of the node that the claim's channel devices take: what it consumes of a shared device, one for each device of its own.
  int ChannelSlots() const;
};

Result<ResourceClaim> DecodeResourceClaim(const nlohmann::json& object);

// The claim's channel config, or nullopt when the claim has no channel device of ours. A config of the claim beats one of the
// class, one that names the request beats a general one, a later one beats an earlier. Missing, malformed or contradicting
// configs are kInvalidArgument.
Result<std::optional<ChannelConfig>> ChannelConfigOf(const ResourceClaim& claim);

}  // namespace cd::api
