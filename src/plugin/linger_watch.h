// Waits for the last process of every lingering claim, then ends its lingering: the channel leaves the node's report. By pidfd:
// nobody polls while containers run. Loop's thread only.
#pragma once

#include <sys/types.h>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/base/executor.h"
#include "src/plugin/claim_files.h"
#include "src/plugin/node_state.h"
#include "src/plugin/processes.h"

namespace cd::plugin {

class LingerWatch {
 public:
  LingerWatch(Executor& executor, NodeState& state, const ClaimFiles& files, Processes& processes);
  ~LingerWatch();
  LingerWatch(const LingerWatch&) = delete;
  LingerWatch& operator=(const LingerWatch&) = delete;

  // Only one instance needs to; before this nothing is looked at.
  void Start();
  void CheckpointChanged();

 private:
  void Arm(Duration delay);
  void Scan();
  bool Follow(const std::string& claim_uid, pid_t pid);
  void Ended(pid_t pid);
  void End(const std::set<std::string>& claims);

  Executor& executor_;
  NodeState& state_;
  const ClaimFiles& files_;
  Processes& processes_;
  bool started_ = false;
  TimerId timer_ = 0;
  std::set<std::string> seen_;  // lingering claims
  std::set<pid_t> followed_;
  std::map<std::string, std::set<pid_t>> holders_;  // by claim UID, those of the last scan that have not ended
};

}  // namespace cd::plugin
