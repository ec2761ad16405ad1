// Keeps this node's IMEXNode: creates it, and writes its status on transitions. Executor's thread only.
//
// During a rolling update both instances have one, and only the publisher's writes. Every write carries the resourceVersion it
// was computed for, so that a write of an instance that died, arriving late, cannot take a newer report back.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/executor.h"
#include "src/fabric/fabric_probe.h"
#include "src/kube/client.h"
#include "src/plugin/node_driver.h"
#include "src/plugin/node_state.h"
#include "src/plugin/own_node.h"
#include "src/plugin/recording.h"

namespace cd::plugin {

class NodeReporter final : public ChannelReport {
 public:
  NodeReporter(Executor& executor, kube::ApiClient& client, NodeState& state, std::string node, std::string boot_id);

  // From here on this instance writes; the IMEXNode it creates belongs to whom `owner` names then. What the checkpoint holds must
  // be known to `state` by now: the first report is what the controller rebuilds a lost domain from.
  void BecomePublisher(OwnerSource owner);

  // What the watch says about the IMEXNode; null: there is none.
  void SetObserved(const std::shared_ptr<const api::ImexNode>& node);
  void SetFabric(const fabric::FabricView& fabric);
  void SetDaemon(const api::NodeDaemon& daemon);
  // The kubelet has taken this process in, at that time.
  void SetRegistered(std::string time);
  void CheckpointChanged();

  void EnsureReported(const api::NodeChannel& channel, std::function<void(Status)> done) override;
  void PrepareEnded(const std::string& claim_uid, bool lost) override;

  // `handler` runs once, when the publisher has read the IMEXNode itself: from then on IsCurrent may be true.
  void OnRead(std::function<void()> handler) { on_read_ = std::move(handler); }
  // False while the publisher knows of a newer IMEXNode than `node`, what the watch says (it may begin with an old list, and lag
  // behind our own writes), or has not read it yet: nothing may be done by an assignment that was taken back.
  bool IsCurrent(const std::shared_ptr<const api::ImexNode>& node) const;

  // The API knows of this node's IMEXNode with what this process would say.
  bool UpToDate() const;

 private:
  // The publisher's way to the API: one request at a time.
  struct Idle {};
  struct AwaitingOwner {};  // about to create; nothing is on its way yet
  struct Requesting {
    bool absence_seen = false;  // the watch saw no IMEXNode meanwhile
  };
  struct Pausing {};  // after a request that failed
  // A read for those who wait, by an instance that is not the publisher.
  struct Asking {
    bool again = false;  // somebody came after it began
  };
  struct Known {
    std::string uid;
    std::string resource_version;
    api::ImexNodeStatus status;
    std::string domain_uid;  // which the node is told to be in; empty: none
  };

  api::ImexNodeStatus Desired() const;
  void Reconcile();
  void ForgetLost(const std::string& claim_uid, const std::string& time);
  void Create(const api::OwnerReference& owner);
  void Write(const api::ImexNodeStatus& desired);
  void Reread();
  void HasRead();
  void Learn(const api::ImexNode& node);
  void OnAnswer(Result<api::ImexNode> answer, std::string_view what);
  void FinishWithdrawals();
  void FollowMaintenance();
  void AnswerWaiting();
  void AskForWaiting();

  Executor& executor_;
  kube::ApiClient& client_;
  NodeState& state_;
  const std::string node_;
  const std::string boot_id_;
  OwnerSource owner_;           // set: publisher
  bool observed_any_ = false;   // the watch has spoken
  std::optional<Known> known_;  // newest state of the object this process has seen
  std::string wanted_maintenance_;
  std::optional<fabric::FabricView> fabric_;  // nothing is reported before the first reading
  api::NodeDaemon daemon_;
  std::map<std::string, std::string> lost_prepares_;  // claim UID → time
  std::string registered_;                            // empty: the report keeps what the process before this one said
  std::variant<Idle, AwaitingOwner, Requesting, Pausing> turn_;
  std::optional<Asking> asking_;
  // A read is due, whatever fails meanwhile: at first the watch may be behind the last write of the instance before this one.
  bool must_read_ = true;
  bool read_ = false;  // by the publisher, with quorum
  std::function<void()> on_read_;
  std::vector<std::pair<api::NodeChannel, std::function<void(Status)>>> waiting_;
  Recording withdrawals_;
  Recording maintenance_;
};

}  // namespace cd::plugin
