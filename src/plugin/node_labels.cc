#include "src/plugin/node_labels.h"

#include <nlohmann/json.hpp>

#include "src/base/log.h"
#include "src/plugin/json_at.h"

namespace cd::plugin {

using nlohmann::json;

namespace {

constexpr Duration kRetry{1'000};
constexpr char kFieldManager[] = "compute-domain-kubelet-plugin";

std::string LabelOf(const json& node, const char* label) {
  const json* labels = FindAt(node, "/metadata/labels");
  if (labels == nullptr || !labels->is_object()) return "";
  const auto it = labels->find(label);
  return it != labels->end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

void NodeLabels::ReadNode(std::function<void(const api::OwnerReference&)> found) {
  client_.Call(kube::Get(api::kNodes, {"", node_}), [this, found](Result<json> answer) {
    if (!answer) {
      LogWarning("cannot read the Node", {{"node", node_}, {"error", answer.error().message}});
      return ArmRetry([this, found] { ReadNode(found); });
    }
    applied_ = Wanted{LabelOf(*answer, api::kCliqueLabel), LabelOf(*answer, api::kDaemonNodeLabel) == "true"};
    found({"v1", "Node", node_, StringAt(*answer, "/metadata/uid"), false});
    Reconcile();
  });
}

void NodeLabels::Set(const Wanted& wanted) {
  if (wanted_ == wanted) return;
  wanted_ = wanted;
  clique_is_foreign_ = false;  // a new value is worth one try
  Reconcile();
}

void NodeLabels::Reconcile() {
  if (!wanted_ || !applied_ || in_flight_ || *wanted_ == *applied_) return;
  Apply(!clique_is_foreign_);
}

void NodeLabels::Apply(bool with_clique) {
  const Wanted wanted = *wanted_;
  json labels = json::object();
  if (with_clique && !wanted.clique_id.empty()) labels[api::kCliqueLabel] = wanted.clique_id;
  if (wanted.daemon) labels[api::kDaemonNodeLabel] = "true";
  const json body{{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", node_}, {"labels", std::move(labels)}}}};

  kube::ApiRequest request;
  request.verb = kube::Verb::kPatch;
  request.patch_type = kube::PatchType::kApply;
  request.type = api::kNodes;
  request.key = {"", node_};
  request.query = {{"fieldManager", kFieldManager}};
  request.body = body.dump();
  in_flight_ = true;
  client_.Call(std::move(request), [this, wanted, with_clique](Result<json> answer) {
    in_flight_ = false;
    if (answer) {
      applied_ = wanted;
      LogInfo("node labels set",
              {{"node", node_}, {"cliqueID", wanted.clique_id}, {"daemon", wanted.daemon}, {"ownClique", with_clique}});
      return Reconcile();
    }
    if (answer.error().code == ErrorCode::kConflict && with_clique) {
      LogInfo("the clique label is kept by somebody else", {{"node", node_}, {"error", answer.error().message}});
      clique_is_foreign_ = true;
      return Apply(false);
    }
    LogWarning("cannot set the node's labels", {{"node", node_}, {"error", answer.error().message}});
    ArmRetry([this] { Reconcile(); });
  });
}

void NodeLabels::ArmRetry(std::function<void()> again) {
  executor_.PostAfter(kRetry, std::move(again));
}

}  // namespace cd::plugin
