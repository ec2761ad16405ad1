#include "src/plugin/own_node.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/log.h"

namespace cd::plugin {

using nlohmann::json;

namespace {

constexpr char kFieldManager[] = "compute-domain-kubelet-plugin";

}  // namespace

OwnNode::OwnNode(Executor& executor, kube::ApiClient& client, std::string node, std::uint64_t seed)
    : executor_(executor), client_(client), node_(std::move(node)), backoff_(seed) {}

OwnNode::Labels OwnNode::LabelsOf(const api::ObjectMeta& meta) {
  const auto clique = meta.labels.find(api::kCliqueLabel);
  const auto daemon = meta.labels.find(api::kDaemonNodeLabel);
  return {clique != meta.labels.end() ? clique->second : "", daemon != meta.labels.end() && daemon->second == "true"};
}

void OwnNode::Read(OnOwner done) {
  waiting_.push_back(std::move(done));
  Check();
}

void OwnNode::Check() {
  read_wanted_ = true;
  Proceed();
}

void OwnNode::SetLabels(const std::string& clique_id, bool daemon) {
  const Labels wanted{clique_id, daemon};
  if (wanted_ == wanted) return;
  wanted_ = wanted;
  Proceed();
}

void OwnNode::Proceed() {
  if (busy_) return;
  if (read_wanted_) return Get();
  if (!wanted_) return;
  if (!seen_) return Get();
  if (!InPlace()) Apply(true);
}

void OwnNode::Get() {
  busy_ = true;
  read_wanted_ = false;
  // Whoever asks from here on is answered by the next read: this one may show a Node that is deleted by then.
  const auto asked = std::exchange(waiting_, {});
  client_.Call(kube::Get(api::kNodes, {"", node_}), [this, asked](Result<json> answer) {
    auto meta = answer ? api::DecodeMeta(*answer) : Result<api::ObjectMeta>(Fail(answer.error()));
    if (!meta) {
      waiting_.insert(waiting_.begin(), asked.begin(), asked.end());
      read_wanted_ = true;
      return Pause(meta.error(), "read");
    }
    busy_ = false;
    seen_ = std::move(*meta);
    for (const OnOwner& done : asked) done({"v1", "Node", node_, seen_->uid, false});
    Proceed();
  });
}

bool OwnNode::InPlace() const {
  const Labels present = LabelsOf(*seen_);
  return present == *wanted_ || (outcome_ && outcome_->wanted == *wanted_ && outcome_->got == present);
}

void OwnNode::Apply(bool with_clique) {
  const Labels wanted = *wanted_;
  json labels = json::object();
  if (with_clique && !wanted.clique_id.empty()) labels[api::kCliqueLabel] = wanted.clique_id;
  if (wanted.daemon) labels[api::kDaemonNodeLabel] = "true";
  // With the UID, so that a Node deleted meanwhile is not made anew, and that another one is read first.
  const json object{{"metadata", {{"name", node_}, {"uid", seen_->uid}, {"labels", std::move(labels)}}}};
  kube::ApiRequest request = kube::Apply(api::kNodes, object, kFieldManager);
  // The daemon's label is nobody else's.
  if (!with_clique) request.query["force"] = "true";
  busy_ = true;
  client_.Call(std::move(request),
               [this, wanted, with_clique](const Result<json>& answer) { OnApplied(answer, wanted, with_clique); });
}

void OwnNode::OnApplied(const Result<json>& answer, const Labels& wanted, bool with_clique) {
  auto meta = answer ? api::DecodeMeta(*answer) : Result<api::ObjectMeta>(Fail(answer.error()));
  if (meta) {
    outcome_ = Outcome{wanted, LabelsOf(*meta)};
    LogInfo("node labels set", {{"node", node_},
                                {"cliqueID", outcome_->got.clique_id},
                                {"daemon", outcome_->got.daemon},
                                {"asWanted", outcome_->got == wanted}});
    busy_ = false;
    seen_ = std::move(*meta);
    return Proceed();
  }
  if (meta.error().code == ErrorCode::kConflict && with_clique) {
    LogInfo("the clique label is kept by somebody else", {{"node", node_}, {"error", meta.error().message}});
    return Apply(false);
  }
  read_wanted_ = true;
  Pause(meta.error(), "labels");
}

void OwnNode::Pause(const Error& error, const char* step) {
  LogWarning("cannot keep up with the Node", {{"node", node_}, {"step", step}, {"error", error.message}});
  executor_.PostAfter(backoff_.Next(error, executor_.clock().Now()), [this] {
    busy_ = false;
    Proceed();
  });
}

}  // namespace cd::plugin
