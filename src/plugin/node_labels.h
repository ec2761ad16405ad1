// The two labels this driver keeps on its Node, by server-side apply: the server remembers which of them are ours, so a clique
// label that GPU feature discovery set is neither changed nor taken away. The Node is watched by name, because people remove
// labels (Kubernetes then deletes the node's IMEX daemon) and whole Nodes (a new one has another UID). Executor's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/base/executor.h"
#include "src/kube/client.h"
#include "src/kube/informer.h"

namespace cd::plugin {

class NodeLabels {
 public:
  NodeLabels(Executor& executor, kube::ApiClient& client, std::string node, std::uint64_t seed);

  struct Wanted {
    std::string clique_id;  // empty: no label
    bool daemon = false;    // an IMEX daemon belongs on this node
    bool operator==(const Wanted&) const = default;
  };

  // Begins to watch the Node, once. Slices and IMEXNode name it as their owner: `on_owner` runs when the Node is first seen, and
  // when it was made anew.
  void Follow(std::function<void(const api::OwnerReference&)> on_owner);
  // Writes only what the Node does not say already.
  void Set(const Wanted& wanted);

 private:
  struct Node {
    api::ObjectMeta meta;
  };

  static Result<Node> Decode(const nlohmann::json& object);
  void See(const api::ObjectMeta& meta);
  bool InPlace() const;
  void Reconcile();
  void Apply(bool with_clique);

  Executor& executor_;
  kube::ApiClient& client_;
  const std::string node_;
  std::function<void(const api::OwnerReference&)> on_owner_;
  std::optional<Wanted> wanted_;
  std::optional<api::ObjectMeta> seen_;  // nullopt: there is no Node, as far as is known
  std::string owner_uid_;                // told last
  bool clique_is_foreign_ = false;
  bool in_flight_ = false;
  bool retry_armed_ = false;
  kube::Informer<Node> nodes_;
};

}  // namespace cd::plugin
