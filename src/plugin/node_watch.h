// The local copies a plugin keeps: its IMEXNode and the one IMEXDomain that names, each watched by name, so that the fan-out of a
// write grows with the clique and not with the cluster. Executor's thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/api/imex_domain.h"
#include "src/api/imex_node.h"
#include "src/base/executor.h"
#include "src/fabric/fabric_probe.h"
#include "src/kube/informer.h"
#include "src/plugin/node_view.h"

namespace cd::plugin {

class NodeWatch {
 public:
  // `on_change` runs when view() became a new one, and when the IMEXNode was listed.
  NodeWatch(Executor& executor, kube::ApiClient& client, const std::string& node, std::uint64_t seed,
            std::function<void()> on_change);

  void Start();
  // The first complete answer about the IMEXNode was seen: from here on "absent" means absent.
  bool Synced() const { return nodes_.Synced(); }
  std::shared_ptr<const NodeView> view() const { return view_; }
  // The IMEXDomain that the daemon runs in, for a node whose assignment may be lost; without effect once there is one.
  void FollowUnassigned(const std::string& domain);
  void SetDaemon(const api::NodeDaemon& daemon);
  void SetFabric(const fabric::FabricView& fabric);

 private:
  using Nodes = kube::Informer<api::ImexNode>;
  using Domains = kube::Informer<api::ImexDomain>;

  void FollowAssignment(const std::optional<api::DomainAssignment>& assigned);
  void FollowDomain(const std::string& name);
  template <typename Edit>
  void Change(Edit edit);

  Executor& executor_;
  kube::ApiClient& client_;
  const std::uint64_t seed_;
  std::function<void()> on_change_;
  std::shared_ptr<const NodeView> view_;           // replaced, never changed: Prepares under way share it
  std::optional<api::DomainAssignment> assigned_;  // as seen last
  std::string domain_name_;
  Nodes nodes_;
  std::unique_ptr<Domains> domains_;
};

}  // namespace cd::plugin
