// Finds entries that no call of the kubelet will ever remove: claims that are gone or were allocated elsewhere while nobody
// listened, and Prepares whose process died. And puts back files of prepared claims that are missing. Executor's thread only.
#pragma once

#include <string>

#include "src/base/executor.h"
#include "src/kube/client.h"
#include "src/plugin/claim_files.h"
#include "src/plugin/node_state.h"

namespace cd::plugin {

class Sweeper {
 public:
  Sweeper(Executor& executor, kube::ApiClient& client, NodeState& state, const ClaimFiles& files, std::string node)
      : executor_(executor), client_(client), state_(state), files_(files), node_(std::move(node)) {}

  // At once, then hourly; only one instance needs to.
  void Start();
  // One request for each prepared claim.
  void Sweep();

 private:
  void DropStale();
  void Check(const ClaimEntry& entry);
  void Restore(const std::string& claim_uid);
  void Remove(const ClaimEntry& entry, const std::string& why);

  Executor& executor_;
  kube::ApiClient& client_;
  NodeState& state_;
  const ClaimFiles& files_;
  const std::string node_;
};

}  // namespace cd::plugin
