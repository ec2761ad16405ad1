#include "src/plugin/linger_watch.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "src/base/log.h"
#include "src/plugin/process_scan.h"

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

LingerWatch::LingerWatch(EventLoop& loop, NodeState& state, const ClaimFiles& files, std::filesystem::path proc_root)
    : loop_(loop), state_(state), files_(files), proc_root_(std::move(proc_root)) {}

LingerWatch::~LingerWatch() {
  loop_.Cancel(timer_);
  for (const auto& [pid, fd] : processes_) loop_.Unwatch(fd.get());
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
  loop_.Cancel(timer_);
  timer_ = loop_.PostAfter(delay, [this] { Scan(); });
}

void LingerWatch::Scan() {
  const auto claims = LingeringClaims(state_.last());
  if (claims.empty()) return;
  // Twice: a process that forked and ended while the first scan passed by is found by the second.
  std::set<std::string> over = claims;
  holders_.clear();
  bool blind = false;
  for (int pass = 0; pass < 2 && !over.empty(); ++pass) {
    const auto holders = ScanProcesses(proc_root_, over);
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
  if (processes_.contains(pid)) return true;
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd && errno == ESRCH) {
    Arm(Duration(0));  // ended since the scan
    return true;
  }
  if (!fd) return false;
  const auto it = processes_.emplace(pid, std::move(fd)).first;
  loop_.Watch(it->second.get(), EPOLLIN, [this, pid](std::uint32_t) { Ended(pid); });
  return true;
}

void LingerWatch::Ended(pid_t pid) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  loop_.Unwatch(it->second.get());
  processes_.erase(it);
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
