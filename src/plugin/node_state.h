// The checkpoint on disk under the node lock, shared with a second instance during a rolling update.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/base/disk.h"
#include "src/base/executor.h"
#include "src/plugin/checkpoint.h"
#include "src/plugin/claim_files.h"

namespace cd::plugin {

// In the plugin's directory.
inline constexpr char kCheckpointFile[] = "checkpoint.json";

// A lock on a file.
class FileLock {
 public:
  explicit FileLock(std::filesystem::path path, Disk& disk = SystemDisk()) : path_(std::move(path)), disk_(disk) {}

  // False: somebody else holds it. Holding it already is true.
  Result<bool> TryLock();
  void Unlock() { lock_.reset(); }
  bool held() const { return lock_ != nullptr; }

 private:
  std::filesystem::path path_;
  Disk& disk_;
  std::unique_ptr<DiskLock> lock_;
};

// Executor's thread only. Nothing here waits with the lock held: a change is a few small files.
class NodeState {
 public:
  // An error means: nothing is to be written.
  using Change = std::function<Status(Checkpoint&)>;
  using Done = std::function<void(Status)>;

  NodeState(Executor& executor, std::filesystem::path plugin_dir, std::string boot_id, const ClaimFiles& files,
            Disk& disk = SystemDisk());
  ~NodeState();
  NodeState(const NodeState&) = delete;
  NodeState& operator=(const NodeState&) = delete;

  // Reads what is on disk, runs `change` on it and writes the result, all under the lock; then `done`. Usually all of it happens
  // before Transact returns; while another instance holds the lock it is tried again, for 10 s at most (kUnavailable).
  // A checkpoint of another boot counts as empty. A damaged one is kept aside and rebuilt from the claims' markers, and from what
  // this instance remembers where those are gone as well.
  void Transact(Change change, Done done);

  // As of the last Transact or Refresh of this instance; another instance may have written since.
  const Checkpoint& last() const { return last_; }
  // Reads the file if another instance changed it.
  void Refresh();
  // Runs after every change seen, with last() being the new one. One handler.
  void OnChange(std::function<void()> handler) { on_change_ = std::move(handler); }

  std::filesystem::path path() const { return path_; }

 private:
  struct Waiting {
    Change change;
    Done done;
    SteadyTime give_up;
  };
  void Try(const std::shared_ptr<Waiting>& waiting);
  // `seen` is what stands on disk afterwards.
  Status RunLocked(const Change& change, std::optional<Checkpoint>& seen);
  Result<Checkpoint> Load();
  Checkpoint Rebuild(const std::string& why);
  void Recall(Checkpoint& rebuilt) const;
  void Publish(Checkpoint checkpoint);

  Executor& executor_;
  const std::filesystem::path plugin_dir_;
  const std::filesystem::path path_;
  const std::string boot_id_;
  const ClaimFiles& files_;
  Disk& disk_;
  FileLock lock_;
  Checkpoint last_;
  std::function<void()> on_change_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // retries still in the executor's timers check it
};

}  // namespace cd::plugin
