// Answers the kubelet: runs one PrepareFlow per claim against disk and API, and unprepares. Executor's thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/executor.h"
#include "src/kube/client.h"
#include "src/plugin/claim_files.h"
#include "src/plugin/dra_server.h"
#include "src/plugin/node_state.h"
#include "src/plugin/prepare_flow.h"

namespace cd::plugin {

// Makes the API know that a channel may be held here.
class ChannelReport {
 public:
  virtual ~ChannelReport() = default;
  // `done` when IMEXNode.status is known to list `channel`, which stands in the checkpoint. At once, and without a request, when
  // it was known before. kConflict: it is listed, but the node is not told to be in the channel's IMEX domain any more, so the
  // channel may not be used. May never be called; never after the caller has stopped caring matters: late calls are ignored.
  virtual void EnsureReported(const api::NodeChannel& channel, std::function<void(Status)> done) = 0;
  // A Prepare that the kubelet waited for ended. `lost`: without a result, though another try would probably succeed.
  virtual void PrepareEnded(const std::string& claim_uid, bool lost) = 0;
};

class NodeDriver final : public DraHandler {
 public:
  struct Options {
    std::string node;
    std::string daemon_namespace;
    std::string instance;  // unlike any other process's, also across restarts
    int slots = api::kDefaultSlots;
  };
  NodeDriver(Executor& executor, kube::ApiClient& client, NodeState& state, const ClaimFiles& files, ChannelReport& report,
             Options options);

  // Calls for a claim that is being prepared already share its result.
  void Prepare(CallId call, const api::ObjectRef& claim, std::function<void(PrepareResult)> done) override;
  void Cancelled(CallId call) override;
  // Needs no API and knows no unknown claim. A Prepare of the claim that is still under way cannot complete any more.
  void Unprepare(const api::ObjectRef& claim, std::function<void(Status)> done) override;

  void SetView(std::shared_ptr<const NodeView> view);
  void CheckpointChanged();

 private:
  struct Run;
  using RunPtr = std::shared_ptr<Run>;

  void Feed(const RunPtr& run, FlowEvent event);
  void Do(const RunPtr& run, const action::LookUp&);
  void Do(const RunPtr& run, const action::ReadClaim&);
  void Do(const RunPtr& run, const action::ListComputeDomains& action);
  void Do(const RunPtr& run, const action::Begin& action);
  void Do(const RunPtr& run, const action::Announce& action);
  void Do(const RunPtr& run, const action::ReadDomain& action);
  void Do(const RunPtr& run, const action::Commit& action);
  void Do(const RunPtr& run, const action::Rollback& action);
  void Do(const RunPtr& run, const action::StartTimer& action);
  void Do(const RunPtr& run, const action::Finish& action);
  void FeedAll(const FlowEvent& event);
  Status WriteFiles(const Checkpoint& checkpoint, const std::string& claim_uid) const;

  Executor& executor_;
  kube::ApiClient& client_;
  NodeState& state_;
  const ClaimFiles& files_;
  ChannelReport& report_;
  const Options options_;
  std::shared_ptr<const NodeView> view_;
  std::map<std::string, RunPtr> runs_;  // by claim UID, one at a time
  std::uint64_t next_nonce_ = 1;
};

}  // namespace cd::plugin
