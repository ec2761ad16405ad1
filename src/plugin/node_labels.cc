#include "src/plugin/node_labels.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/resource_version.h"
#include "src/base/log.h"

namespace cd::plugin {

using nlohmann::json;

namespace {

constexpr Duration kRetry{1'000};
constexpr char kFieldManager[] = "compute-domain-kubelet-plugin";

std::string LabelOf(const api::ObjectMeta& meta, const char* label) {
  const auto it = meta.labels.find(label);
  return it != meta.labels.end() ? it->second : "";
}

}  // namespace

NodeLabels::NodeLabels(Executor& executor, kube::ApiClient& client, std::string node, std::uint64_t seed)
    : executor_(executor),
      client_(client),
      node_(std::move(node)),
      nodes_(client, executor, {api::kNodes, "", "", "metadata.name=" + node_}, &NodeLabels::Decode, seed) {}

Result<NodeLabels::Node> NodeLabels::Decode(const json& object) {
  auto meta = api::DecodeMeta(object);
  if (!meta) return Fail(meta.error());
  return Node{std::move(*meta)};
}

void NodeLabels::Follow(std::function<void(const api::OwnerReference&)> on_owner) {
  on_owner_ = std::move(on_owner);
  nodes_.AddHandler([this](kube::ChangeType type, const kube::Informer<Node>::Ptr& node) {
    if (node->meta.name != node_) return;
    if (type != kube::ChangeType::kDeleted) return See(node->meta);
    if (seen_ && seen_->uid == node->meta.uid) seen_.reset();
  });
  nodes_.Start();
}

// From the watch, or from the answer to a write, whichever is newer.
void NodeLabels::See(const api::ObjectMeta& meta) {
  if (seen_ && api::VersionOrder(meta.resource_version, seen_->resource_version) < 0) return;
  seen_ = meta;
  // Whoever kept the label has let it go.
  if (LabelOf(*seen_, api::kCliqueLabel).empty()) clique_is_foreign_ = false;
  if (std::exchange(owner_uid_, meta.uid) != meta.uid) on_owner_({"v1", "Node", node_, meta.uid, false});
  Reconcile();
}

void NodeLabels::Set(const Wanted& wanted) {
  if (wanted_ == wanted) return;
  wanted_ = wanted;
  clique_is_foreign_ = false;  // a new value is worth one try
  Reconcile();
}

bool NodeLabels::InPlace() const {
  const bool daemon = LabelOf(*seen_, api::kDaemonNodeLabel) == "true";
  return daemon == wanted_->daemon && (clique_is_foreign_ || LabelOf(*seen_, api::kCliqueLabel) == wanted_->clique_id);
}

void NodeLabels::Reconcile() {
  if (!wanted_ || !seen_ || in_flight_ || retry_armed_ || InPlace()) return;
  Apply(!clique_is_foreign_);
}

void NodeLabels::Apply(bool with_clique) {
  const Wanted wanted = *wanted_;
  json labels = json::object();
  if (with_clique && !wanted.clique_id.empty()) labels[api::kCliqueLabel] = wanted.clique_id;
  if (wanted.daemon) labels[api::kDaemonNodeLabel] = "true";
  const json object{{"metadata", {{"name", node_}, {"labels", std::move(labels)}}}};
  kube::ApiRequest request = kube::Apply(api::kNodes, object, kFieldManager);
  // The daemon's label is nobody else's.
  if (!with_clique) request.query["force"] = "true";
  in_flight_ = true;
  client_.Call(std::move(request), [this, wanted, with_clique](Result<json> answer) {
    in_flight_ = false;
    auto node = answer ? Decode(*answer) : Result<Node>(Fail(answer.error()));
    if (node) {
      LogInfo("node labels set",
              {{"node", node_}, {"cliqueID", wanted.clique_id}, {"daemon", wanted.daemon}, {"ownClique", with_clique}});
      // Not what we asked for: somebody else keeps it.
      clique_is_foreign_ = LabelOf(node->meta, api::kCliqueLabel) != wanted.clique_id;
      See(node->meta);
      return Reconcile();  // also where the watch has shown more than this answer
    }
    if (node.error().code == ErrorCode::kConflict && with_clique) {
      LogInfo("the clique label is kept by somebody else", {{"node", node_}, {"error", node.error().message}});
      clique_is_foreign_ = true;
      return Apply(false);
    }
    LogWarning("cannot set the node's labels", {{"node", node_}, {"error", node.error().message}});
    retry_armed_ = true;
    executor_.PostAfter(kRetry, [this] {
      retry_armed_ = false;
      Reconcile();
    });
  });
}

}  // namespace cd::plugin
