// The two labels this driver keeps on its Node, by server-side apply: the server remembers which of them are ours, so a clique
// label that GPU feature discovery set is neither changed nor taken away. Executor's thread only.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "src/base/executor.h"
#include "src/kube/client.h"

namespace cd::plugin {

class NodeLabels {
 public:
  NodeLabels(Executor& executor, kube::ApiClient& client, std::string node)
      : executor_(executor), client_(client), node_(std::move(node)) {}

  struct Wanted {
    std::string clique_id;  // empty: no label
    bool daemon = false;    // an IMEX daemon belongs on this node
    bool operator==(const Wanted&) const = default;
  };

  // Reads the Node for its UID, which slices and IMEXNode name as their owner; `found` runs once.
  void ReadNode(std::function<void(const api::OwnerReference&)> found);
  // After ReadNode. Writes only when something differs from what this process last knew.
  void Set(const Wanted& wanted);

 private:
  void Reconcile();
  void Apply(bool with_clique);
  void ArmRetry(std::function<void()> again);

  Executor& executor_;
  kube::ApiClient& client_;
  const std::string node_;
  std::optional<Wanted> wanted_;
  std::optional<Wanted> applied_;
  bool clique_is_foreign_ = false;
  bool in_flight_ = false;
};

}  // namespace cd::plugin
