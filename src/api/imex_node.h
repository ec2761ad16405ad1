// IMEXNode: one per node with GPUs. The node's plugin writes status, the controller writes spec.
#pragma once

#include <string>
#include <vector>

#include "src/api/imex_domain.h"
#include "src/api/meta.h"

namespace cd::api {

// What the fabric looks like from this node.
enum class FabricState {
  kNone,      // no fabric-attached GPU (or no GPU driver): offers no channel
  kForming,   // registration with the fabric manager still in progress: offers nothing yet, heals by itself
  kReady,     // exactly one clique, healthy
  kDegraded,  // attached but unhealthy: never counts as "no fabric"
  kMixed,     // GPUs in different cliques: not supported, offers nothing
};

std::string ToString(FabricState state);  // as in status.fabric.state

enum class DaemonState { kAbsent, kStarting, kReady, kNotReady };

struct DomainAssignment {
  std::string name;  // of the IMEXDomain
  std::string uid;
  int index = 0;  // this node's slot in it
  bool operator==(const DomainAssignment&) const = default;
};

struct NodeDaemon {
  std::string address;   // pod IP the daemon binds to
  std::string instance;  // changes with every start of nvidia-imex
  // Where nvidia-imex runs, else where it is told to run and may be started at any moment; empty and -1: neither.
  std::string domain_uid;
  int index = -1;
  DaemonState state = DaemonState::kAbsent;
  std::vector<int> connected;  // indexes this node sees CONNECTED, sorted, self excluded
  std::string domain = {};     // name of the IMEXDomain, which a lost and rebuilt one has again; empty: only the UID is known
  std::string message = {};    // why it is not READY, for people; empty: it is, or has not failed
  std::string pod_uid = {};    // of the daemon's pod; empty: not known
  std::string revision = {};   // of that pod's template, as the daemon was told; empty: not known
  bool operator==(const NodeDaemon&) const = default;
};

// A channel announced, prepared or lingering on the node: processes may hold it.
struct NodeChannel {
  std::string domain_uid;
  int channel = 0;
  std::string compute_domain_uid;
  std::string domain = {};  // name of the IMEXDomain, which a lost and rebuilt one has again; empty: only the UID is known
  auto operator<=>(const NodeChannel&) const = default;
};

// A call of the kubelet for this claim ended without a result for a reason that has passed, at that time: its pods need a push.
struct LostPrepare {
  std::string claim_uid;
  std::string time;
  auto operator<=>(const LostPrepare&) const = default;
};

struct ImexNodeStatus {
  std::string boot_id;
  std::string driver_version;
  std::string plugin_registered;  // time at which the kubelet took the running plugin in; empty: not yet
  FabricState fabric = FabricState::kNone;
  std::vector<std::string> clique_ids;  // sorted; exactly one when kReady
  std::string fabric_message;           // why nothing is offered; empty when kReady
  NodeDaemon daemon;
  std::vector<NodeChannel> channels;       // sorted
  std::vector<LostPrepare> lost_prepares;  // of the last minutes, sorted
  std::string maintenance_acknowledged;    // echo of spec.maintenance once no channel is held and no Prepare completes
  bool operator==(const ImexNodeStatus&) const = default;
};

// A ComputeDomain with fabricPolicy Optional whose pods this node, which has no fabric, runs without a channel. The counterpart
// of a lease: without it no pod starts here.
struct Exemption {
  ObjectRef compute_domain;
  bool released = true;                           // as in ChannelLease
  std::vector<std::string> released_claims = {};  // as in ChannelLease
  bool exclusive = false;                         // isolationMode Domain: its pods share the node with nobody

  bool Releases(const std::string& claim_uid) const;
  bool operator==(const Exemption&) const = default;
};

struct ImexNode {
  ObjectMeta meta;  // name = the Node's name; owner = the Node
  std::optional<DomainAssignment> domain;
  std::string maintenance;            // token of a requested maintenance, empty: none
  std::vector<Refusal> refusals;      // for nodes without an IMEXDomain; `node` is left empty
  std::vector<Exemption> exemptions;  // sorted by UID; only where NoFabric
  ImexNodeStatus status;
  bool reported = false;  // status was ever written
};

// The token of spec.maintenance by which the daemon's pod with that UID is to be replaced. No other text has this form.
std::string ReplacementToken(const std::string& pod_uid);
// The UID that such a token names; empty: it is another text.
std::string PodToReplace(const std::string& token);
// No Prepare completes there: the plugin has said so, or will say so any moment because it holds no channel.
bool UnderMaintenance(const ImexNode& node);

// The driver answers, and says that no GPU is on a multi-node fabric. Anything less (no answer, registration under way, a sick
// GPU) is no evidence: a workload that silently ran without its channel would be worse off than one that waits.
bool NoFabric(const ImexNodeStatus& status);
// The node's GPUs are surely not in that clique. A fabric that is forming or degraded says nothing: it may heal.
bool IsElsewhere(FabricState fabric, const std::vector<std::string>& clique_ids, const std::string& clique_id);

/* JSON (v1alpha1):
   spec: {domain?: {name,uid,index}, maintenance?, refusals?: [{computeDomainUID, reason, message}],
          exemptions?: [{computeDomain: {namespace,name,uid}, released, releasedClaims?}]}
   status: {bootID, driverVersion, pluginRegistered?, fabric: {state: None|Forming|Ready|Degraded|Mixed, cliqueIDs: [], message},
            daemon: {address, instance, domain?, domainUID, index, state: Absent|Starting|Ready|NotReady, connected: [],
                     message?, podUID?, revision?},
            channels: [{domain, domainUID, channel, computeDomainUID}],
            lostPrepares?: [{claimUID, time}], maintenanceAcknowledged?} */
Result<ImexNode> DecodeImexNode(const nlohmann::json& object);
nlohmann::json EncodeImexNode(const ImexNode& node);
nlohmann::json EncodeImexNodeStatus(const ImexNodeStatus& status);

}  // namespace cd::api
