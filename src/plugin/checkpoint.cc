#include "src/plugin/checkpoint.h"

#include <algorithm>
#include <iterator>

namespace cd::plugin {

namespace {

// Enough for every Prepare that can be in flight (the kubelet allows 45 s) while pods come and go.
constexpr std::size_t kRememberedUnprepares = 256;

bool HoldsChannel(const ClaimEntry& entry) {
  return entry.grant && !entry.grant->WithoutChannel();
}

std::set<api::NodeChannel> HeldSet(const Checkpoint& checkpoint) {
  std::set<api::NodeChannel> held;
  for (const auto& [uid, entry] : checkpoint.claims) {
    if (HoldsChannel(entry)) held.insert(entry.grant->Reported());
  }
  for (const auto& [uid, grant] : checkpoint.lingering) held.insert(grant.Reported());
  return held;
}

// Runs `change`; a channel nothing holds afterwards is being withdrawn.
template <typename Change>
void Releasing(Checkpoint& checkpoint, Change change) {
  const auto before = HeldSet(checkpoint);
  change();
  const auto after = HeldSet(checkpoint);
  std::set_difference(before.begin(), before.end(), after.begin(), after.end(),
                      std::inserter(checkpoint.withdrawing, checkpoint.withdrawing.end()));
}

void RememberUnprepare(Checkpoint& checkpoint, const std::string& claim_uid) {
  checkpoint.unprepared[claim_uid] = ++checkpoint.sequence;
  while (checkpoint.unprepared.size() > kRememberedUnprepares) {
    checkpoint.unprepared.erase(std::min_element(checkpoint.unprepared.begin(), checkpoint.unprepared.end(),
                                                 [](const auto& a, const auto& b) { return a.second < b.second; }));
  }
}

// The last line of defence for "one channel, one ComputeDomain" and "one node, one IMEX domain": the controller should never have
// granted it. `claim_uid`: what a Prepare of the same claim that died has left counts as nothing.
Status HeldForNobodyElse(const Checkpoint& checkpoint, const std::string& claim_uid, const Grant& wanted) {
  const auto in_the_way = [&](const Grant& held) {
    const bool others = held.compute_domain.uid != wanted.compute_domain.uid;
    if (others && (held.exclusive || wanted.exclusive)) return true;
    if (held.WithoutChannel() || wanted.WithoutChannel()) return false;
    // A number in whatever domain: the device is the node's, and a rebuilt domain has another UID than the one it was held in.
    return (others && held.channel == wanted.channel) || held.domain != wanted.domain;
  };
  const auto refuse = [&](const Grant& held) {
    const std::string what = held.WithoutChannel() ? "this node is still held"
                                                   : "channel " + std::to_string(held.channel) + " of IMEXDomain " + held.domain +
                                                         " is still held on this node";
    return Fail(ErrorCode::kFailedPrecondition, what + " for ComputeDomain " + ToString(held.compute_domain) + " (UID " +
                                                    held.compute_domain.uid +
                                                    "); the node is free when the last process of its pods has ended");
  };
  for (const auto& [uid, entry] : checkpoint.claims) {
    if (uid != claim_uid && entry.grant && in_the_way(*entry.grant)) return refuse(*entry.grant);
  }
  for (const auto& [uid, grant] : checkpoint.lingering) {
    if (in_the_way(grant)) return refuse(grant);
  }
  return {};
}

}  // namespace

std::vector<api::NodeChannel> HeldChannels(const Checkpoint& checkpoint) {
  const auto held = HeldSet(checkpoint);
  return {held.begin(), held.end()};
}

bool HasDaemonClaim(const Checkpoint& checkpoint) {
  return std::any_of(checkpoint.claims.begin(), checkpoint.claims.end(), [](const auto& item) { return !item.second.grant; });
}

const ClaimEntry* FindCompleted(const Checkpoint& checkpoint, const std::string& claim_uid) {
  const auto it = checkpoint.claims.find(claim_uid);
  return it != checkpoint.claims.end() && it->second.phase == ClaimPhase::kCompleted ? &it->second : nullptr;
}

Result<BeginOutcome> Begin(Checkpoint& checkpoint, const ClaimEntry& entry, std::uint64_t sequence) {
  const std::string& uid = entry.claim.uid;
  if (FindCompleted(checkpoint, uid) != nullptr) return BeginOutcome::kAlready;
  const auto unprepared = checkpoint.unprepared.find(uid);
  if (unprepared != checkpoint.unprepared.end() && unprepared->second > sequence) {
    return Fail(ErrorCode::kCancelled, "the claim was unprepared while this Prepare was under way");
  }
  if (entry.grant) {
    if (auto free = HeldForNobodyElse(checkpoint, uid, *entry.grant); !free) return Fail(free.error());
  }
  if (!HoldsChannel(entry)) {  // nothing is announced
    checkpoint.claims[uid] = entry;
    checkpoint.claims[uid].phase = ClaimPhase::kCompleted;
    return BeginOutcome::kCompleted;
  }
  if (!checkpoint.maintenance.empty()) {
    return Fail(ErrorCode::kFailedPrecondition,
                "the node is under maintenance (" + checkpoint.maintenance +
                    "): its IMEX daemon is being replaced; nothing to do, the pod is tried again");
  }
  const api::NodeChannel wanted = entry.grant->Reported();
  if (checkpoint.withdrawing.contains(wanted)) return BeginOutcome::kWithdrawing;
  Releasing(checkpoint, [&] {  // what a Prepare that died had announced may be another channel
    checkpoint.claims[uid] = entry;
    checkpoint.claims[uid].phase = ClaimPhase::kStarted;
  });
  return BeginOutcome::kStarted;
}

Status Complete(Checkpoint& checkpoint, const std::string& claim_uid, const std::string& nonce) {
  const auto it = checkpoint.claims.find(claim_uid);
  if (it == checkpoint.claims.end()) {
    return Fail(ErrorCode::kCancelled, "the claim was unprepared while this Prepare was under way");
  }
  if (it->second.phase != ClaimPhase::kStarted || it->second.nonce != nonce) {
    return Fail(ErrorCode::kCancelled, "another Prepare of this claim took over");
  }
  it->second.phase = ClaimPhase::kCompleted;
  checkpoint.lingering.erase(claim_uid);
  return {};
}

void Rollback(Checkpoint& checkpoint, const std::string& claim_uid, const std::string& nonce) {
  const auto it = checkpoint.claims.find(claim_uid);
  if (it == checkpoint.claims.end() || it->second.phase != ClaimPhase::kStarted || it->second.nonce != nonce) return;
  Releasing(checkpoint, [&] { checkpoint.claims.erase(it); });
}

void Unprepare(Checkpoint& checkpoint, const std::string& claim_uid) {
  RememberUnprepare(checkpoint, claim_uid);
  const auto it = checkpoint.claims.find(claim_uid);
  if (it == checkpoint.claims.end()) return;
  Releasing(checkpoint, [&] {
    // A started Prepare gave nothing away: no process can hold what no CDI file ever named.
    if (HoldsChannel(it->second) && it->second.phase == ClaimPhase::kCompleted)
      checkpoint.lingering[claim_uid] = *it->second.grant;
    checkpoint.claims.erase(it);
  });
}

void EndLingering(Checkpoint& checkpoint, const std::string& claim_uid) {
  Releasing(checkpoint, [&] { checkpoint.lingering.erase(claim_uid); });
}

// By value, because a caller passes checkpoint.withdrawing itself.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void EndWithdrawal(Checkpoint& checkpoint, std::set<api::NodeChannel> channels) {
  for (const api::NodeChannel& channel : channels) checkpoint.withdrawing.erase(channel);
}

Status SetMaintenance(Checkpoint& checkpoint, const std::string& token) {
  if (!token.empty() && (!HeldSet(checkpoint).empty() || !checkpoint.withdrawing.empty())) {
    return Fail(ErrorCode::kFailedPrecondition, "channels are held on this node");
  }
  checkpoint.maintenance = token;
  return {};
}

}  // namespace cd::plugin
