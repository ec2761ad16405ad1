#include "src/plugin/node_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/log.h"

namespace cd::plugin {

namespace {

constexpr Duration kLockWait{10'000};
constexpr Duration kLockRetry{2};  // a holder needs a few milliseconds

// Its containers hold channels that nothing here knows of: they would be given to others.
std::string TellGoDriver(const std::filesystem::path& path, const std::vector<std::string>& claims) {
  return path.string() + " is the checkpoint of another driver of this name and lists " + std::to_string(claims.size()) +
         " prepared claims (" + claims.front() + (claims.size() == 1 ? "" : ", …") +
         "): bring that driver back and delete their pods, or reboot the node and remove the file";
}

}  // namespace

Result<bool> FileLock::TryLock() {
  if (held()) return true;
  auto lock = disk_.TryLock(path_);
  if (!lock) return Fail(lock.error());
  lock_ = std::move(*lock);
  return held();
}

NodeState::NodeState(Executor& executor, std::filesystem::path plugin_dir, std::string boot_id, const ClaimFiles& files,
                     Disk& disk)
    : executor_(executor),
      plugin_dir_(std::move(plugin_dir)),
      path_(plugin_dir_ / kCheckpointFile),
      boot_id_(std::move(boot_id)),
      files_(files),
      disk_(disk),
      lock_(plugin_dir_ / "serialize.lock", disk) {}

NodeState::~NodeState() {
  *alive_ = false;
}

void NodeState::Transact(Change change, Done done) {
  Try(std::make_shared<Waiting>(Waiting{std::move(change), std::move(done), executor_.clock().Now() + kLockWait}));
}

void NodeState::Try(const std::shared_ptr<Waiting>& waiting) {
  const auto locked = lock_.TryLock();
  if (!locked) return waiting->done(Fail(Annotate(locked.error(), "node lock")));
  if (*locked) {
    std::optional<Checkpoint> seen;
    Status result = RunLocked(waiting->change, seen);
    lock_.Unlock();  // before anybody hears of it: a handler may start the next transaction
    if (seen) Publish(std::move(*seen));
    return waiting->done(std::move(result));
  }
  if (executor_.clock().Now() >= waiting->give_up) {
    return waiting->done(Fail(ErrorCode::kUnavailable, "another process holds the node lock for more than 10 s"));
  }
  executor_.PostAfter(kLockRetry, [this, waiting, alive = alive_] {
    if (*alive) Try(waiting);
  });
}

Status NodeState::RunLocked(const Change& change, std::optional<Checkpoint>& seen) {
  auto loaded = Load();
  if (!loaded) return Fail(loaded.error());
  seen = *loaded;
  if (auto changed = change(*loaded); !changed) return changed;
  if (*loaded == *seen) return {};
  if (auto written = disk_.Replace(path_, EncodeCheckpoint(*loaded)); !written)
    return Fail(Annotate(written.error(), "checkpoint"));
  seen = std::move(*loaded);
  return {};
}

Result<Checkpoint> NodeState::Load() {
  const auto text = disk_.Read(path_, 4 << 20);
  if (!text && text.error().code != ErrorCode::kNotFound && text.error().code != ErrorCode::kInvalidArgument) {
    return Fail(Annotate(text.error(), "checkpoint"));  // the disk, not the content: to be tried again
  }
  auto checkpoint = text ? DecodeCheckpoint(*text) : Result<Checkpoint>(Fail(text.error()));
  if (!checkpoint) {
    if (const auto theirs = text ? ClaimsOfGoDriver(*text, boot_id_) : std::vector<std::string>(); !theirs.empty())
      return Fail(ErrorCode::kFailedPrecondition, TellGoDriver(path_, theirs));
    const bool missing = checkpoint.error().code == ErrorCode::kNotFound;
    Checkpoint rebuilt = Rebuild(missing ? "" : checkpoint.error().message);
    if (auto written = disk_.Replace(path_, EncodeCheckpoint(rebuilt)); !written)
      return Fail(Annotate(written.error(), "checkpoint"));
    return rebuilt;
  }
  if (checkpoint->boot_id == boot_id_) return checkpoint;
  // After a reboot no process is left that could hold anything, and the CDI specs are gone with /run.
  LogInfo("the node was rebooted: dropping what was prepared before",
          {{"bootID", boot_id_}, {"claims", checkpoint->claims.size()}});
  Checkpoint empty;
  empty.boot_id = boot_id_;
  empty.sequence = checkpoint->sequence;
  return empty;
}

Checkpoint NodeState::Rebuild(const std::string& why) {
  std::vector<std::string> unreadable;
  Checkpoint rebuilt = files_.Rebuild(unreadable);
  rebuilt.boot_id = boot_id_;
  if (last_.boot_id == boot_id_) Recall(rebuilt);
  for (const std::string& marker : unreadable) LogError("a claim's marker cannot be read", {{"file", marker}});
  if (why.empty()) {
    if (!rebuilt.claims.empty() || !rebuilt.lingering.empty()) {
      LogWarning("no checkpoint: rebuilt from the claims' markers and from memory",
                 {{"claims", rebuilt.claims.size()}, {"lingering", rebuilt.lingering.size()}});
    }
    return rebuilt;
  }
  const std::string aside = path_.string() + ".damaged-" + std::to_string(executor_.clock().WallNow().time_since_epoch().count());
  if (auto moved = disk_.Rename(path_, aside); !moved) LogWarning("it cannot be kept", {{"error", moved.error().message}});
  LogError("the checkpoint is damaged: kept aside, and what it held is held on from the claims' markers",
           {{"error", why}, {"file", aside}, {"claims", rebuilt.claims.size()}, {"lingering", rebuilt.lingering.size()}});
  return rebuilt;
}

// Somebody deleted the plugin's directory, markers and all, while containers hold their channels. The CDI specs lie elsewhere:
// what another instance has unprepared since has none any more. It lingers, until its processes are found to have ended.
void NodeState::Recall(Checkpoint& rebuilt) const {
  if (auto made = files_.MakeDirectories(); !made) LogError("cannot make directories", {{"error", made.error().message}});
  rebuilt.sequence = last_.sequence;
  rebuilt.unprepared = last_.unprepared;
  for (const auto& [uid, entry] : last_.claims) {
    if (entry.phase != ClaimPhase::kCompleted || rebuilt.claims.contains(uid) || rebuilt.lingering.contains(uid)) continue;
    if (files_.HasCdiSpec(uid)) {
      rebuilt.claims[uid] = entry;
      if (auto written = files_.Write(entry); !written)
        LogError("cannot write the files of a claim", {{"claimUID", uid}, {"error", written.error().message}});
    } else if (entry.grant && !entry.grant->WithoutChannel()) {
      rebuilt.lingering[uid] = *entry.grant;
    }
  }
  for (const auto& [uid, grant] : last_.lingering) {
    if (!rebuilt.claims.contains(uid)) rebuilt.lingering.try_emplace(uid, grant);
  }
  // What was only announced was given to nobody, but the API may have heard of it.
  rebuilt.withdrawing = last_.withdrawing;
  const auto held = HeldChannels(rebuilt);
  for (const api::NodeChannel& channel : HeldChannels(last_)) {
    if (!std::binary_search(held.begin(), held.end(), channel)) rebuilt.withdrawing.insert(channel);
  }
}

void NodeState::Publish(Checkpoint checkpoint) {
  if (checkpoint == last_) return;
  last_ = std::move(checkpoint);
  if (on_change_) on_change_();
}

void NodeState::Refresh() {
  Transact([](Checkpoint&) { return Status{}; },
           [](const Status& read) {
             if (!read) LogWarning("cannot read the checkpoint", {{"error", read.error().message}});
           });
}

}  // namespace cd::plugin
