// Keeps the node's ResourceSlice as it should be: created again at once when somebody deletes it (the kubelet does when it
// starts, and 30 s after a driver went away). Executor's thread only.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>

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
  // The publisher's way to the API: one request at a time, as NodeReporter has it.
  struct Idle {};
  struct AwaitingOwner {};  // about to create; nothing is on its way yet
  struct Requesting {
    bool absence_seen = false;  // the watch saw the slice disappear meanwhile: before the request was carried out, or after
  };
  struct Pausing {};  // after a request that failed
  using Answered = std::function<void(Result<nlohmann::json> answer, bool absence_seen)>;

  void TakeList(const std::vector<const nlohmann::json*>& items);
  void TakeChange(kube::ChangeType type, const nlohmann::json& object);
  void SeeAbsence();
  void Reconcile();
  void Create(const api::OwnerReference& owner);
  void Update(const nlohmann::json& present);
  void Remove(const nlohmann::json& slice);
  void Reread();
  void Request(kube::ApiRequest request, Answered answered);
  void Write(kube::ApiRequest request, const nlohmann::json& slice, const char* what);
  void OnWritten(Result<nlohmann::json> answer, bool absence_seen, const nlohmann::json& spec, const char* what);
  void Learn(nlohmann::json slice);
  void NotKept(const nlohmann::json& stored, const nlohmann::json& spec);
  void SharingDropped();
  void Pause(Duration delay, void (SlicePublisher::*next)());

  Executor& executor_;
  kube::ApiClient& client_;
  SliceInput input_;
  const DeviceModeChoice choice_;
  OwnerSource owner_;  // set: publisher
  bool offer_known_ = false;
  bool synced_ = false;  // the watch has spoken
  bool published_ = false;
  std::variant<Idle, AwaitingOwner, Requesting, Pausing> turn_;
  std::int64_t generation_ = 0;  // the highest ever seen in the node's pool
  nlohmann::json not_kept_;      // spec of a slice that the server took and stored otherwise; null: none
  TimerId again_ = 0;            // when it is tried again
  // By name: what the watch says, and what the server answered to our writes where that is newer.
  std::map<std::string, nlohmann::json> slices_;
  kube::Reflector reflector_;
};

}  // namespace cd::plugin
