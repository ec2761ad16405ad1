#include "src/plugin/node_reporter.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/resource_version.h"
#include "src/base/log.h"

namespace cd::plugin {

using nlohmann::json;

namespace {

constexpr Duration kRetry{1'000};
// Long enough for a controller to take over and act on it; the kubelet tries again by itself at that time.
constexpr Duration kLostIsNews{120'000};
constexpr std::size_t kMaxLost = 64;  // as the CRD has it

bool Lists(const api::ImexNodeStatus& status, const api::NodeChannel& channel) {
  return std::find(status.channels.begin(), status.channels.end(), channel) != status.channels.end();
}

}  // namespace

NodeReporter::NodeReporter(Executor& executor, kube::ApiClient& client, NodeState& state, std::string node, std::string boot_id)
    : executor_(executor),
      client_(client),
      state_(state),
      node_(std::move(node)),
      boot_id_(std::move(boot_id)),
      withdrawals_(executor, state, [this] { Reconcile(); }),
      maintenance_(executor, state, [this] { FollowMaintenance(); }) {}

void NodeReporter::BecomePublisher(OwnerSource owner) {
  owner_ = std::move(owner);
  Reconcile();
}

void NodeReporter::SetObserved(const std::shared_ptr<const api::ImexNode>& node) {
  observed_any_ = true;
  if (node == nullptr) {
    // With a request of ours on its way the watch may be behind it, or ahead of its answer: only a read can tell.
    if (auto* requesting = std::get_if<Requesting>(&turn_)) {
      requesting->absence_seen = true;
    } else {
      known_.reset();
    }
  } else {
    Learn(*node);
  }
  if (!owner_) AskForWaiting();
  FollowMaintenance();
  Reconcile();
}

void NodeReporter::SetFabric(const fabric::FabricView& fabric) {
  fabric_ = fabric;
  Reconcile();
}

void NodeReporter::SetDaemon(const api::NodeDaemon& daemon) {
  daemon_ = daemon;
  FollowMaintenance();
  Reconcile();
}

void NodeReporter::SetRegistered(std::string time) {
  registered_ = std::move(time);
  Reconcile();
}

void NodeReporter::PrepareEnded(const std::string& claim_uid, bool lost) {
  if (!lost) return ForgetLost(claim_uid, "");
  if (lost_prepares_.size() >= kMaxLost && !lost_prepares_.contains(claim_uid)) return;
  const std::string time = FormatMicroTime(executor_.clock().WallNow());
  lost_prepares_[claim_uid] = time;
  executor_.PostAfter(kLostIsNews, [this, claim_uid, time] { ForgetLost(claim_uid, time); });
  Reconcile();
}

// Empty time: whichever.
void NodeReporter::ForgetLost(const std::string& claim_uid, const std::string& time) {
  const auto it = lost_prepares_.find(claim_uid);
  if (it == lost_prepares_.end() || (!time.empty() && it->second != time)) return;
  lost_prepares_.erase(it);
  Reconcile();
}

void NodeReporter::CheckpointChanged() {
  FollowMaintenance();
  Reconcile();
}

bool NodeReporter::UpToDate() const {
  return known_ && fabric_ && known_->status == Desired();
}

api::ImexNodeStatus NodeReporter::Desired() const {
  api::ImexNodeStatus out;
  out.boot_id = boot_id_;
  out.driver_version = fabric_->driver_version;
  out.plugin_registered = registered_.empty() && known_ ? known_->status.plugin_registered : registered_;
  out.fabric = fabric_->state;
  out.clique_ids = fabric_->clique_ids;
  out.fabric_message = fabric_->message;
  out.daemon = daemon_;
  out.channels = HeldChannels(state_.last());
  for (const auto& [uid, time] : lost_prepares_) out.lost_prepares.push_back({uid, time});
  out.maintenance_acknowledged = state_.last().maintenance;
  return out;
}

void NodeReporter::Reconcile() {
  if (!owner_ || !std::holds_alternative<Idle>(turn_)) return;
  if (must_read_) return Reread();
  if (!observed_any_ || !fabric_) return;
  if (!known_) {
    turn_ = AwaitingOwner{};
    return owner_([this](const api::OwnerReference& owner) { Create(owner); });
  }
  const api::ImexNodeStatus desired = Desired();
  if (known_->status != desired) return Write(desired);
  FinishWithdrawals();
  AnswerWaiting();
}

void NodeReporter::Create(const api::OwnerReference& owner) {
  turn_ = Idle{};
  if (known_) return Reconcile();  // somebody has made it meanwhile
  turn_ = Requesting{};
  api::ImexNode node;
  node.meta.name = node_;
  node.meta.owners = {owner};
  client_.Call(kube::Create(api::kImexNodes, "", api::EncodeImexNode(node)), [this](Result<json> answer) {
    if (!answer && answer.error().code == ErrorCode::kAlreadyExists) return Reread();
    OnAnswer(answer ? api::DecodeImexNode(*answer) : Fail(answer.error()), "create");
  });
}

void NodeReporter::Write(const api::ImexNodeStatus& desired) {
  json status = api::EncodeImexNodeStatus(desired);
  // A merge patch removes only what it names.
  if (desired.maintenance_acknowledged.empty()) status["maintenanceAcknowledged"] = nullptr;
  if (desired.lost_prepares.empty()) status["lostPrepares"] = nullptr;
  if (desired.daemon.domain.empty()) status["daemon"]["domain"] = nullptr;
  if (desired.daemon.message.empty()) status["daemon"]["message"] = nullptr;
  if (desired.daemon.pod_uid.empty()) status["daemon"]["podUID"] = nullptr;
  if (desired.daemon.revision.empty()) status["daemon"]["revision"] = nullptr;
  const json patch{{"metadata", {{"resourceVersion", known_->resource_version}}}, {"status", std::move(status)}};
  turn_ = Requesting{};
  client_.Call(kube::MergePatch(api::kImexNodes, {"", node_}, patch, "status"), [this, desired](Result<json> answer) {
    if (!answer && answer.error().code == ErrorCode::kConflict) return Reread();  // the controller wrote the spec
    auto node = answer ? api::DecodeImexNode(*answer) : Result<api::ImexNode>(Fail(answer.error()));
    if (node && node->status != desired)
      node = Fail(ErrorCode::kInternal, "the server keeps another status than was sent: is the CRD older than the plugin?");
    OnAnswer(std::move(node), "status");
  });
}

void NodeReporter::Reread() {
  must_read_ = true;
  turn_ = Requesting{};
  client_.Call(kube::Get(api::kImexNodes, {"", node_}),
               [this](Result<json> answer) { OnAnswer(answer ? api::DecodeImexNode(*answer) : Fail(answer.error()), "read"); });
}

void NodeReporter::OnAnswer(Result<api::ImexNode> answer, std::string_view what) {
  const bool absence_seen = std::exchange(std::get<Requesting>(turn_).absence_seen, false);
  if (absence_seen && answer) return Reread();
  if (absence_seen) known_.reset();
  turn_ = Idle{};
  if (answer) {
    must_read_ = false;
    Learn(*answer);
    FollowMaintenance();
    HasRead();
    return Reconcile();
  }
  if (answer.error().code == ErrorCode::kNotFound && what != "create") {
    must_read_ = false;
    known_.reset();  // deleted meanwhile: created anew
    HasRead();
    return Reconcile();
  }
  LogWarning("cannot write IMEXNode", {{"node", node_}, {"step", what}, {"error", answer.error().message}});
  turn_ = Pausing{};
  executor_.PostAfter(answer.error().retry_after.value_or(kRetry), [this] {
    turn_ = Idle{};
    Reconcile();
  });
}

void NodeReporter::HasRead() {
  if (!std::exchange(read_, true) && on_read_) on_read_();
}

bool NodeReporter::IsCurrent(const std::shared_ptr<const api::ImexNode>& node) const {
  if (!read_ || (node != nullptr) != known_.has_value()) return false;
  if (node == nullptr) return true;
  return node->meta.uid == known_->uid && !(api::VersionOrder(node->meta.resource_version, known_->resource_version) < 0);
}

// An answer may come after the watch has told of a later version. Versions without an order tell nothing, and count as newer.
void NodeReporter::Learn(const api::ImexNode& node) {
  if (known_ && node.meta.uid == known_->uid && api::VersionOrder(node.meta.resource_version, known_->resource_version) < 0)
    return;
  known_ = Known{node.meta.uid, node.meta.resource_version, node.reported ? node.status : api::ImexNodeStatus{},
                 node.domain ? node.domain->uid : ""};
  wanted_maintenance_ = node.maintenance;
}

// The object as it is known lists what the checkpoint holds, and no write of ours is on its way.
void NodeReporter::FinishWithdrawals() {
  const std::set<api::NodeChannel> ended = state_.last().withdrawing;
  if (ended.empty()) return;
  withdrawals_.Run(
      [this, ended](Checkpoint& checkpoint) -> Status {
        std::set<api::NodeChannel> unlisted;
        for (const api::NodeChannel& channel : ended) {
          if (known_ && !Lists(known_->status, channel)) unlisted.insert(channel);
        }
        EndWithdrawal(checkpoint, unlisted);
        return {};
      },
      [](const Status& result) {
        // Prepares of the ComputeDomain wait for it, and nothing else need happen on this node.
        if (!result) LogWarning("a withdrawn channel stays marked, trying on", {{"error", result.error().message}});
      });
}

void NodeReporter::FollowMaintenance() {
  const std::string& standing = state_.last().maintenance;
  if (!owner_ || wanted_maintenance_ == standing) return;
  // Once this node's word was given, the deletion of that pod may be on its way, whatever the API says now: perhaps the IMEXNode
  // with the wish was lost. Only the pod's end ends it.
  const std::string replaced = api::PodToReplace(standing);
  if (!replaced.empty() && (daemon_.pod_uid.empty() || daemon_.pod_uid == replaced)) return;
  if (!wanted_maintenance_.empty() && !HeldChannels(state_.last()).empty()) return;  // asked again when a channel is given up
  maintenance_.Run([token = wanted_maintenance_](Checkpoint& checkpoint) { return SetMaintenance(checkpoint, token); },
                   [token = wanted_maintenance_](const Status& result) {
                     if (result) return LogInfo("maintenance", {{"token", token}, {"acknowledged", !token.empty()}});
                     // A withdrawal may be on its way, or the disk takes nothing: no event need follow.
                     LogWarning("cannot record a maintenance, trying on", {{"token", token}, {"error", result.error().message}});
                   });
}

void NodeReporter::EnsureReported(const api::NodeChannel& channel, std::function<void(Status)> done) {
  waiting_.emplace_back(channel, std::move(done));
  if (!owner_) return AskForWaiting();
  Reconcile();
}

void NodeReporter::AnswerWaiting() {
  std::vector<std::pair<std::function<void(Status)>, Status>> answered;
  std::erase_if(waiting_, [&](auto& item) {
    if (!Lists(known_->status, item.first)) return false;
    Status result;
    // The controller takes a node out of a domain only in a version that lists no channel of it. If that came before this report,
    // the report kept nothing from happening.
    if (known_->domain_uid != item.first.domain_uid)
      result = Fail(ErrorCode::kConflict, "the node was moved to another IMEX domain meanwhile");
    answered.emplace_back(std::move(item.second), std::move(result));
    return true;
  });
  for (auto& [done, result] : answered) done(std::move(result));
}

// The other instance writes the report, from the checkpoint both share. What the watch says may be older than a withdrawal that
// has ended since, so a quorum read decides.
void NodeReporter::AskForWaiting() {
  if (waiting_.empty()) return;
  if (asking_) {
    asking_->again = true;
    return;
  }
  asking_ = Asking{};
  client_.Call(kube::Get(api::kImexNodes, {"", node_}), [this](Result<json> answer) {
    const bool again = std::exchange(asking_, std::nullopt)->again;
    if (owner_) return Reconcile();
    // Without an answer the next event of the watch asks again, and the Prepare has a limit of its own.
    if (auto node = answer ? api::DecodeImexNode(*answer) : Result<api::ImexNode>(Fail(answer.error()))) {
      Learn(*node);
      AnswerWaiting();
    }
    if (again && !asking_) AskForWaiting();
  });
}

}  // namespace cd::plugin
