#include "src/plugin/sweeper.h"

#include <nlohmann/json.hpp>

#include "src/base/log.h"
#include "src/plugin/claim_request.h"

namespace cd::plugin {

namespace {

constexpr Duration kInterval{3'600'000};
// Longer than the kubelet waits for a Prepare: its process, this one or another, is not at it any more.
constexpr Duration kStale{60'000};

}  // namespace

void Sweeper::Start() {
  Sweep();
  executor_.PostAfter(kStale + Duration(1'000), [this] { DropStale(); });
  executor_.PostAfter(kInterval, [this] { Start(); });
}

void Sweeper::Sweep() {
  DropStale();
  const Checkpoint checkpoint = state_.last();
  for (const auto& [uid, entry] : checkpoint.claims) {
    if (entry.phase == ClaimPhase::kCompleted) Check(entry);
  }
}

void Sweeper::DropStale() {
  state_.Transact(
      [this](Checkpoint& checkpoint) -> Status {
        const SteadyTime now = executor_.clock().Now();
        const auto claims = checkpoint.claims;
        for (const auto& [uid, entry] : claims) {
          if (entry.phase == ClaimPhase::kStarted && now - entry.started > kStale) Rollback(checkpoint, uid, entry.nonce);
        }
        // A process that died between the files of a claim and its checkpoint left some of them.
        files_.RemoveStrays(checkpoint);
        return {};
      },
      [](const Status& result) {
        if (!result) LogWarning("cannot drop stale Prepares", {{"error", result.error().message}});
      });
}

void Sweeper::Check(const ClaimEntry& entry) {
  client_.Call(kube::Get(api::kResourceClaims, {entry.claim.ns, entry.claim.name}), [this, entry](Result<nlohmann::json> answer) {
    if (!answer) {
      if (answer.error().code == ErrorCode::kNotFound) Remove(entry, "it is gone");
      return;  // else nothing was learned
    }
    const auto claim = api::DecodeResourceClaim(*answer);
    if (!claim) return;
    // A claim that is being deleted still has a pod: the kubelet will unprepare it.
    api::ResourceClaim undeleted = *claim;
    undeleted.meta.deleting = false;
    if (auto wanted = StillWanted(undeleted, entry.claim, node_); !wanted) return Remove(entry, wanted.error().message);
    Restore(entry.claim.uid);
  });
}

// The kubelet prepares a pod once. A container that it restarts later needs the files all the same, though people deleted them.
void Sweeper::Restore(const std::string& claim_uid) {
  state_.Transact(
      [this, claim_uid](Checkpoint& checkpoint) {
        const ClaimEntry* entry = FindCompleted(checkpoint, claim_uid);
        return entry == nullptr ? Status{} : files_.Write(*entry);
      },
      [claim_uid](const Status& result) {
        if (!result)
          LogWarning("cannot see to the files of a claim", {{"claimUID", claim_uid}, {"error", result.error().message}});
      });
}

void Sweeper::Remove(const ClaimEntry& entry, const std::string& why) {
  LogInfo("sweeping a prepared claim", {{"claim", ToString(entry.claim)}, {"claimUID", entry.claim.uid}, {"reason", why}});
  state_.Transact(
      [this, uid = entry.claim.uid](Checkpoint& checkpoint) {
        Unprepare(checkpoint, uid);
        return files_.RemoveCdiSpec(uid);
      },
      [](const Status& result) {
        if (!result) LogWarning("cannot sweep", {{"error", result.error().message}});
      });
}

}  // namespace cd::plugin
