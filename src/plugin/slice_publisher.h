// Keeps the node's ResourceSlice as it should be: created again at once when somebody deletes it (the kubelet does when it
// starts, and 30 s after a driver went away). Executor's thread only.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/base/executor.h"
#include "src/kube/client.h"
#include "src/kube/informer.h"
#include "src/plugin/device_slice.h"
#include "src/plugin/own_node.h"

namespace cd::plugin {

enum class DeviceModeChoice { kAuto, kMulti, kPlain };

class SlicePublisher {
 public:
  SlicePublisher(Executor& executor, kube::ApiClient& client, const std::string& node, int slots, DeviceModeChoice choice,
                 std::uint64_t seed);

  // Both instances watch, the publisher writes.
  void Start();
  void BecomePublisher(OwnerSource owner);
  // See SliceInput. Neither: offer nothing.
  void SetOffer(const std::string& clique_id, bool channel);

  // The server has the slice this process wants it to have.
  bool Published() const { return published_; }
  DeviceMode mode() const { return input_.mode; }

 private:
  void Reconcile();
  void Create(const api::OwnerReference& owner);
  void Update(const nlohmann::json& present);
  void Remove(const nlohmann::json& slice);
  void Reread();
  void OnWritten(Result<nlohmann::json> answer, std::string_view what);
  void ArmRetry(Duration delay);

  Executor& executor_;
  kube::ApiClient& client_;
  SliceInput input_;
  const DeviceModeChoice choice_;
  OwnerSource owner_;  // set: publisher
  bool offer_known_ = false;
  bool synced_ = false;
  bool in_flight_ = false;
  bool absence_seen_ = false;  // while a request was in flight
  bool retry_armed_ = false;
  bool published_ = false;
  std::int64_t generation_ = 0;  // the highest ever seen in the node's pool
  // By name: what the watch says, and what the server answered to our writes where that is newer.
  std::map<std::string, nlohmann::json> slices_;
  kube::Reflector reflector_;
};

}  // namespace cd::plugin
