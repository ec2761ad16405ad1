// IMEXDomain: who is a member of one set of nvidia-imex daemons, and which ComputeDomain owns which channel of it.
//
// Written by the controller alone. One object per clique for the shared domain (name `<clusterUUID>.<cliqueID>`), one per
// (ComputeDomain, clique) for an exclusive one (name `<ComputeDomain UID>.<cliqueID>`).
#pragma once

#include <string>
#include <vector>

#include "src/api/meta.h"

namespace cd::api {

enum class AllocationMode { kSingle, kAll };
std::string ToString(AllocationMode mode);  // as in spec.channel.allocationMode of a ComputeDomain

enum class DomainMode { kShared, kExclusive };
enum class LeaseState { kActive, kDraining };

// A rack has 18 compute trays; the rest are spares so that a replaced node finds a slot before the old one's is proved dead.
inline constexpr int kDefaultNodeSlots = 24;

struct DomainMember {
  int index = 0;  // line of the node map, 0 … nodeSlots-1; fixed while the daemon runs
  std::string node;
  std::string address;  // the daemon's, empty until it reported one
  std::string boot_id;
  bool unseen = false;  // its daemon says READY, but the other members' daemons do not see it: no new pod starts there
  bool operator==(const DomainMember&) const = default;
};

struct ChannelLease {
  int channel = 0;  // >= 1; channel 0 is never granted
  ObjectRef compute_domain;
  LeaseState state = LeaseState::kActive;
  bool released = false;                          // gating: pods of this ComputeDomain may start
  std::vector<std::string> released_claims = {};  // else only those of these claims; UIDs, sorted

  bool Releases(const std::string& claim_uid) const;
  bool operator==(const ChannelLease&) const = default;
};

// The controller's "no" to one ComputeDomain on one node, in words for the pod's event.
struct Refusal {
  std::string node;
  std::string compute_domain_uid;
  std::string reason;   // CamelCase
  std::string message;  // says field, value, remedy
  bool operator==(const Refusal&) const = default;
};

struct ImexConfig {
  std::string wait_for_quorum;  // NONE | RECOVERY | FULL; empty: the cluster's default
  std::optional<int> node_disconnected_grace_seconds;
  std::optional<int> log_level;  // 0 … 4
  bool operator==(const ImexConfig&) const = default;
};

struct ImexDomain {
  ObjectMeta meta;
  std::string clique_id;  // `<clusterUUID>.<cliqueID>`
  DomainMode mode = DomainMode::kShared;
  std::optional<ObjectRef> compute_domain;                   // kExclusive only
  AllocationMode allocation_mode = AllocationMode::kSingle;  // its containers get one channel, or all; fixed for life
  int node_slots = kDefaultNodeSlots;                        // fixed for life
  ImexConfig imex_config;                                    // fixed for life
  std::vector<DomainMember> members;
  std::vector<ChannelLease> channels;
  int next_channel = 1;  // next-fit: a freed number is not reused at once
  std::vector<Refusal> refusals;
};

// On an IMEXDomain that was created and is not made yet: members and leases are to be filled in from a list of all IMEXNodes that
// is younger than the object. Until then it counts as absent.
inline constexpr char kUnmadeAnnotation[] = "resource.nvidia.com/unmade";
inline bool IsMade(const ImexDomain& domain) {
  return !domain.meta.annotations.contains(kUnmadeAnnotation);
}

// Which clique an IMEXDomain is of, and whose it is; all of that is in its name, so a lost one can be made anew.
struct DomainIdentity {
  std::string clique_id;
  std::string owner_uid;  // of the ComputeDomain; empty: shared
  bool operator==(const DomainIdentity&) const = default;
};
std::string DomainName(const DomainIdentity& identity);
DomainIdentity IdentityOf(const std::string& domain_name);

// Each nullptr when there is none.
const DomainMember* FindMember(const ImexDomain& domain, const std::string& node);
// In any state.
const ChannelLease* FindLease(const ImexDomain& domain, const std::string& compute_domain_uid);
// Of an IMEXDomain, or of an IMEXNode, whose refusals name no node.
const Refusal* FindRefusal(const std::vector<Refusal>& refusals, const std::string& node, const std::string& compute_domain_uid);

/* JSON (v1alpha1), everything under spec:
   {cliqueID, mode: Shared|Exclusive, computeDomain?: {namespace,name,uid}, allocationMode?: Single|All, nodeSlots, imexConfig:
   {waitForQuorum?, nodeDisconnectedGraceSeconds?, logLevel?}, members: [{index,node,address,bootID,unseen?}],
   channels: [{channel, computeDomain:{namespace,name,uid}, state: Active|Draining, released, releasedClaims?}], nextChannel,
   refusals: [{node, computeDomainUID, reason, message}]} */
Result<ImexDomain> DecodeImexDomain(const nlohmann::json& object);
nlohmann::json EncodeImexDomain(const ImexDomain& domain);

}  // namespace cd::api
