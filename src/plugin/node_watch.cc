#include "src/plugin/node_watch.h"

#include <utility>

namespace cd::plugin {

namespace {

kube::InformerOptions ByName(const api::ResourceType& type, const std::string& name) {
  return {.type = type, .field_selector = "metadata.name=" + name};
}

std::shared_ptr<const NodeView> EmptyView(const std::string& node) {
  auto view = std::make_shared<NodeView>();
  view->node = node;
  return view;
}

}  // namespace

NodeWatch::NodeWatch(Executor& executor, kube::ApiClient& client, const std::string& node, std::uint64_t seed,
                     std::function<void()> on_change)
    : executor_(executor),
      client_(client),
      seed_(seed),
      on_change_(std::move(on_change)),
      view_(EmptyView(node)),
      nodes_(client, executor, ByName(api::kImexNodes, node), api::DecodeImexNode, seed) {}

template <typename Edit>
void NodeWatch::Change(Edit edit) {
  auto next = std::make_shared<NodeView>(*view_);
  edit(*next);
  view_ = std::move(next);
  on_change_();
}

void NodeWatch::Start() {
  nodes_.AddHandler([this](kube::ChangeType type, const Nodes::Ptr& node) {
    if (node->meta.name != view_->node) return;
    const bool present = type != kube::ChangeType::kDeleted;
    FollowAssignment(present ? node->domain : std::nullopt);
    Change([&](NodeView& view) { view.imex_node = present ? node : nullptr; });
  });
  // Also where nothing changed: that there is none is news about an IMEXNode which came and went while nobody watched.
  nodes_.OnListed([this](const std::string&) { on_change_(); });
  nodes_.Start();
}

// Without an assignment the last domain is followed on: it tells whether the node was deprived of its place or only of the word.
// What is shown of the domain is never older than the assignment, or its absence: a place that was taken back, or was given by a
// controller which did not know that the domain was lost, is none in it.
void NodeWatch::FollowAssignment(const std::optional<api::DomainAssignment>& assigned) {
  if (assigned == assigned_) return;
  assigned_ = assigned;
  FollowDomain(assigned ? assigned->name : domain_name_);
}

void NodeWatch::FollowDomain(const std::string& name) {
  if (name.empty()) return;
  domain_name_ = name;
  domains_.reset();
  if (view_->domain) Change([](NodeView& view) { view.domain = nullptr; });
  kube::InformerOptions options = ByName(api::kImexDomains, name);
  options.fresh = true;
  domains_ = std::make_unique<Domains>(client_, executor_, options, api::DecodeImexDomain, seed_ + 1);
  domains_->AddHandler([this](kube::ChangeType type, const Domains::Ptr& domain) {
    if (domain->meta.name != domain_name_) return;
    const bool present = type != kube::ChangeType::kDeleted;
    Change([&](NodeView& view) { view.domain = present ? domain : nullptr; });
  });
  domains_->Start();
}

void NodeWatch::FollowUnassigned(const std::string& domain) {
  if (domain_name_.empty()) FollowDomain(domain);
}

void NodeWatch::SetDaemon(const api::NodeDaemon& daemon) {
  if (daemon == view_->daemon) return;
  Change([&](NodeView& view) { view.daemon = daemon; });
}

void NodeWatch::SetFabric(const fabric::FabricView& fabric) {
  const bool same = fabric.state == view_->fabric && fabric.clique_ids == view_->clique_ids &&
                    fabric.message == view_->fabric_message && fabric.NoFabric() == view_->no_fabric;
  if (same) return;
  Change([&](NodeView& view) {
    view.fabric = fabric.state;
    view.clique_ids = fabric.clique_ids;
    view.fabric_message = fabric.message;
    view.no_fabric = fabric.NoFabric();
  });
}

}  // namespace cd::plugin
