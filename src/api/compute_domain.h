// ComputeDomain v1beta2 (storage version): the user's wish that some pods share GPU memory over NVLink.
#pragma once

#include <string>
#include <vector>

#include "src/api/imex_domain.h"
#include "src/api/meta.h"

namespace cd::api {

enum class IsolationMode { kChannel, kDomain };
enum class PartitionPolicy { kAny, kSingle };
enum class FabricPolicy { kRequired, kOptional };
enum class OnTimeout { kFail, kRelease };

struct Gating {
  std::optional<int> min_nodes;
  int settle_seconds = 5;
  int timeout_seconds = 600;
  OnTimeout on_timeout = OnTimeout::kFail;
  bool operator==(const Gating&) const = default;
};

// One clique the ComputeDomain runs in.
struct PartitionStatus {
  std::string clique_id;
  std::string imex_domain;  // name of the IMEXDomain
  int channel = 0;
  int nodes = 0;
  int ready_nodes = 0;
  bool operator==(const PartitionStatus&) const = default;
};

struct MemberStatus {
  std::string node;
  std::string clique_id;
  std::string address;
  int index = 0;
  bool ready = false;
  bool operator==(const MemberStatus&) const = default;
};

// Above this many members only the counts stay exact.
inline constexpr int kMaxStatusMembers = 144;

struct ComputeDomainStatus {
  std::int64_t observed_generation = 0;
  std::vector<Condition> conditions;  // Accepted, Ready, Formed, Degraded
  int total_nodes = 0;
  int ready_nodes = 0;
  int nodes_without_fabric = 0;  // fabricPolicy Optional: pods run there without a channel
  std::string partition;         // partitionPolicy Single: the clique all its pods must run in; empty: none has come yet
  std::vector<PartitionStatus> partitions;
  std::vector<MemberStatus> members;
  bool operator==(const ComputeDomainStatus&) const = default;
};

struct ComputeDomain {
  ObjectMeta meta;
  std::string claim_template_name;
  AllocationMode allocation_mode = AllocationMode::kSingle;
  IsolationMode isolation_mode = IsolationMode::kChannel;
  PartitionPolicy partition_policy = PartitionPolicy::kAny;
  FabricPolicy fabric_policy = FabricPolicy::kRequired;
  std::optional<Gating> gating;
  std::optional<ImexConfig> imex;
  ComputeDomainStatus status;
};

/* JSON (v1beta2):
   spec: {channel: {resourceClaimTemplate: {name}, allocationMode: Single|All}, isolationMode: Channel|Domain, partitionPolicy:
   Any|Single, fabricPolicy: Required|Optional, gating?: {minNodes?, settleSeconds, timeoutSeconds, onTimeout: Fail|Release},
          imex?: {waitForQuorum?, nodeDisconnectedGraceSeconds?, logLevel?}}
   status: {observedGeneration, conditions[], nodeSummary: {total, ready, withoutFabric?},
   partition?, partitions: [{cliqueID, imexDomain, channel, nodes,
   readyNodes}], members: [{node, cliqueID, address, index, ready}]} */
Result<ComputeDomain> DecodeComputeDomain(const nlohmann::json& object);
nlohmann::json EncodeComputeDomainStatus(const ComputeDomainStatus& status);

}  // namespace cd::api
