// The Node this plugin runs on: who owns what the plugin publishes, and the two labels this driver keeps there, by server-side
// apply: the server remembers which of them are ours, so a clique label that GPU feature discovery set is neither changed nor
// taken away. The Node is read when there is reason to and never watched, for the kubelet writes to it all the time. Executor's
// thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/executor.h"
#include "src/kube/backoff.h"
#include "src/kube/client.h"

namespace cd::plugin {

using OnOwner = std::function<void(const api::OwnerReference&)>;
// Calls its argument once, as soon as it is known who owns what is created now.
using OwnerSource = std::function<void(OnOwner)>;

class OwnNode {
 public:
  OwnNode(Executor& executor, kube::ApiClient& client, std::string node, std::uint64_t seed);

  // An OwnerSource. What goes with its Node is thereby not made again before the Node is: the garbage collector would take it
  // away at once, for ever. Answers when the Node was read, which may be long after.
  void Read(OnOwner done);
  // Reads the Node and puts its labels right: to be called after whatever may have to do with their removal.
  void Check();
  void SetLabels(const std::string& clique_id, bool daemon);

 private:
  struct Labels {
    std::string clique_id;  // empty: no label
    bool daemon = false;    // an IMEX daemon belongs on this node
    bool operator==(const Labels&) const = default;
  };

  // What a write brought about. Not always what was wanted: somebody else may keep a label, and no second write would help.
  struct Outcome {
    Labels wanted;
    Labels got;
  };

  static Labels LabelsOf(const api::ObjectMeta& meta);

  void Proceed();
  void Get();
  bool InPlace() const;
  void Apply(bool with_clique);
  void OnApplied(const Result<nlohmann::json>& answer, const Labels& wanted, bool with_clique);
  void Pause(const Error& error, const char* step);

  Executor& executor_;
  kube::ApiClient& client_;
  const std::string node_;
  std::vector<OnOwner> waiting_;
  std::optional<Labels> wanted_;
  std::optional<api::ObjectMeta> seen_;  // as last read or written
  bool read_wanted_ = false;
  std::optional<Outcome> outcome_;
  bool busy_ = false;  // a request is on its way, or the pause after one that failed
  kube::WatchBackoff backoff_;
};

}  // namespace cd::plugin
