// What this node has granted, as it stands on disk. Pure: types, text form, and the rules that change it under the node lock.
//
// Prepare and Unprepare are correct after a crash at any instruction because everything another process must know stands here
// before it takes effect: PrepareStarted before a channel is announced, PrepareCompleted with the CDI file, the lingering entry
// instead of the claim's, and the withdrawal before the report loses a channel.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/imex_node.h"
#include "src/base/clock.h"
#include "src/base/result.h"

namespace cd::plugin {

// A device the scheduler allocated to a claim.
struct ClaimDevice {
  std::string request;
  std::string pool;
  std::string device;
  std::optional<std::string> share_id;
  bool operator==(const ClaimDevice&) const = default;
};

// The channel of a ComputeDomain in one IMEX domain; or, on a node without fabric, leave to run without one: then all but
// compute_domain is empty and 0.
struct Grant {
  std::string domain;  // name of the IMEXDomain
  std::string domain_uid;
  std::string clique_id;
  int channel = 0;
  api::ObjectRef compute_domain;
  bool all_channels = false;  // of an exclusive domain; `channel` stands for all of them in reports
  bool exclusive = false;     // isolationMode Domain: nobody else's pods on the node

  bool WithoutChannel() const { return domain.empty(); }
  api::NodeChannel Reported() const { return {domain_uid, channel, compute_domain.uid, domain}; }
  bool operator==(const Grant&) const = default;
};

enum class ClaimPhase {
  kStarted,    // a Prepare is on its way, or died on it
  kCompleted,  // the kubelet was told, or is being told
};

struct ClaimEntry {
  api::ObjectRef claim;
  ClaimPhase phase = ClaimPhase::kStarted;
  std::string nonce;           // of the Prepare that wrote kStarted; only that one may complete it
  SteadyTime started{};        // monotonic since boot, so that any process of this boot can tell the age
  std::optional<Grant> grant;  // nullopt: the daemon's claim
  std::vector<ClaimDevice> devices;
  bool operator==(const ClaimEntry&) const = default;
};

struct Checkpoint {
  std::string boot_id;
  // Counts Unprepares; see `unprepared`.
  std::uint64_t sequence = 0;
  std::map<std::string, ClaimEntry> claims;  // by claim UID
  // Unprepared, but a process of a container that was granted the claim may live. By claim UID.
  std::map<std::string, Grant> lingering;
  // Held by nothing any more, but the API may still hear (or have heard) that it is: no Prepare may count on that report.
  std::set<api::NodeChannel> withdrawing;
  // The latest Unprepares: a Prepare that began earlier and recorded nothing yet must not complete.
  std::map<std::string, std::uint64_t> unprepared;
  // Token of an acknowledged maintenance: nothing may be prepared while it stands.
  std::string maintenance;
  bool operator==(const Checkpoint&) const = default;
};

std::string EncodeCheckpoint(const Checkpoint& checkpoint);
// Lenient towards newer writers: unknown fields are passed over. Anything that is no checkpoint is kInvalidArgument.
Result<Checkpoint> DecodeCheckpoint(std::string_view text);

// The existing Go driver has the same driver name, and so its checkpoint the same path: {checksum, v1 {preparedClaims}, v2
// {preparedClaims, nodeBootID}}. UIDs of what it has prepared and not unprepared in this boot; empty for any other text.
std::vector<std::string> ClaimsOfGoDriver(std::string_view text, const std::string& boot_id);

// What IMEXNode.status.channels must say: whatever a process may hold or is about to get. Sorted.
std::vector<api::NodeChannel> HeldChannels(const Checkpoint& checkpoint);

// The claim of this node's daemon is prepared, or about to be.
bool HasDaemonClaim(const Checkpoint& checkpoint);

// The entry if `claim_uid` is prepared.
const ClaimEntry* FindCompleted(const Checkpoint& checkpoint, const std::string& claim_uid);

enum class BeginOutcome {
  kStarted,      // recorded; announce, check, then Complete
  kCompleted,    // recorded as completed: no channel, so nothing to announce
  kAlready,      // was completed before
  kWithdrawing,  // the channel is just being withdrawn: try again when that is done
};

// Records the start of a Prepare. `sequence` is the checkpoint's when the Prepare began. kCancelled: the claim was unprepared
// since; kFailedPrecondition: maintenance, or the channel is still held for another ComputeDomain.
Result<BeginOutcome> Begin(Checkpoint& checkpoint, const ClaimEntry& entry, std::uint64_t sequence);
// kCancelled: the entry is gone or another Prepare's.
Status Complete(Checkpoint& checkpoint, const std::string& claim_uid, const std::string& nonce);
// Forgets a Prepare that failed; nothing when the entry is not `nonce`'s any more.
void Rollback(Checkpoint& checkpoint, const std::string& claim_uid, const std::string& nonce);
// Never fails. A granted channel lingers from here on.
void Unprepare(Checkpoint& checkpoint, const std::string& claim_uid);
// No process of the claim lives any more.
void EndLingering(Checkpoint& checkpoint, const std::string& claim_uid);
// The API heard a report without these channels.
void EndWithdrawal(Checkpoint& checkpoint, std::set<api::NodeChannel> channels);
// kFailedPrecondition while a channel is held or a Prepare is under way. An empty token ends the maintenance.
Status SetMaintenance(Checkpoint& checkpoint, const std::string& token);

}  // namespace cd::plugin
