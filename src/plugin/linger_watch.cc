#include "src/plugin/linger_watch.h"

#include <algorithm>
#include <utility>

#include "src/base/log.h"

namespace cd::plugin {

namespace {

// A scan that failed, or a kernel without pidfd.
constexpr Duration kScanAgain{5'000};

std::set<std::string> LingeringClaims(const Checkpoint& checkpoint) {
  std::set<std::string> uids;
  for (const auto& [uid, grant] : checkpoint.lingering) uids.insert(uid);
  return uids;
}

}  // namespace

LingerWatch::LingerWatch(Executor& executor, NodeState& state, const ClaimFiles& files, Processes& processes)
    : executor_(executor), state_(state), files_(files), processes_(processes) {}

LingerWatch::~LingerWatch() {
  executor_.Cancel(timer_);
  for (const pid_t pid : followed_) processes_.Forget(pid);
}

void LingerWatch::Start() {
  started_ = true;
  CheckpointChanged();
}

void LingerWatch::CheckpointChanged() {
  if (!started_) return;
  const auto lingering = LingeringClaims(state_.last());
  const bool news = !std::includes(seen_.begin(), seen_.end(), lingering.begin(), lingering.end());
  seen_ = lingering;
  if (news) Arm(Duration(0));
}

void LingerWatch::Arm(Duration delay) {
  executor_.Cancel(timer_);
  timer_ = executor_.PostAfter(delay, [this] { Scan(); });
}

void LingerWatch::Scan() {
  const auto claims = LingeringClaims(state_.last());
  if (claims.empty()) return;
  // Twice: a process that forked and ended while the first scan passed by is found by the second.
  std::set<std::string> over = claims;
  holders_.clear();
  bool blind = false;
  for (int pass = 0; pass < 2 && !over.empty(); ++pass) {
    const auto holders = processes_.Holders(over);
    if (!holders) {
      LogError("cannot tell whether processes hold a channel: it stays held", {{"error", holders.error().message}});
      return Arm(kScanAgain);
    }
    for (const auto& [uid, pids] : *holders) {
      over.erase(uid);
      for (const pid_t pid : pids) blind = !Follow(uid, pid) || blind;
    }
  }
  if (blind) Arm(kScanAgain);
  if (!over.empty()) End(over);
}

// False where the end of the process will not be told.
bool LingerWatch::Follow(const std::string& claim_uid, pid_t pid) {
  holders_[claim_uid].insert(pid);
  if (followed_.contains(pid)) return true;
  switch (processes_.Follow(pid, [this, pid] { Ended(pid); })) {
    case Processes::Following::kFollowed:
      followed_.insert(pid);
      return true;
    case Processes::Following::kEnded:
      Arm(Duration(0));
      return true;
    case Processes::Following::kImpossible:
      break;
  }
  return false;
}

void LingerWatch::Ended(pid_t pid) {
  followed_.erase(pid);
  for (auto& [uid, pids] : holders_) {
    if (pids.erase(pid) > 0 && pids.empty()) Arm(Duration(0));  // its last known one: look for others
  }
}

void LingerWatch::End(const std::set<std::string>& claims) {
  state_.Transact(
      [this, claims](Checkpoint& checkpoint) -> Status {
        for (const std::string& uid : claims) {
          EndLingering(checkpoint, uid);
          // A claim prepared again in the meantime has the marker in use.
          if (!checkpoint.claims.contains(uid)) static_cast<void>(files_.RemoveMarker(uid));
        }
        return {};
      },
      [this, claims](const Status& result) {
        if (!result) {
          LogWarning("cannot record that a channel is free", {{"error", result.error().message}});
          return Arm(kScanAgain);
        }
        for (const std::string& uid : claims) LogInfo("the last process of a claim has ended", {{"claimUID", uid}});
      });
}

}  // namespace cd::plugin
