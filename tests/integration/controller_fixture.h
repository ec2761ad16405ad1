// The controller against a real API server. Kubelet plugins, scheduler and claim controller are played by the test: it writes
// what they would write.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "src/api/compute_domain.h"
#include "src/api/imex_node.h"
#include "src/controller/controller.h"
#include "tests/integration/cluster.h"

namespace cd::integration {

// Passes calls on and remembers them as "verb resource[/subresource]", with what was refused.
class CountingClient final : public kube::ApiClient {
 public:
  explicit CountingClient(kube::ApiClient& inner) : inner_(inner) {}

  void Call(kube::ApiRequest request, Callback done) override;
  std::unique_ptr<kube::WatchStream> Watch(kube::WatchRequest request, EventHandler on_event, EndHandler on_end) override {
    return inner_.Watch(std::move(request), std::move(on_event), std::move(on_end));
  }

  std::map<std::string, int> Counts() const;
  int Total() const;
  int Writes() const;
  std::vector<std::string> Refused() const;
  void Reset();

 private:
  kube::ApiClient& inner_;
  mutable std::mutex mutex_;
  std::map<std::string, int> counts_;
  std::vector<std::string> refused_;
};

// One life of a controller process.
class ControllerProcess {
 public:
  explicit ControllerProcess(controller::ControllerOptions options = {});
  ~ControllerProcess();

  Connection connection;
  CountingClient client{*connection.client};

 private:
  std::unique_ptr<controller::Controller> controller_;
  std::thread worker_;
};

// A claim with its pod, as scheduler and claim controller leave them.
struct Workload {
  std::string pod;
  std::string claim;
  std::string pod_uid;
};

class ControllerTest : public testing::Test {
 protected:
  static void SetUpTestSuite();
  void SetUp() override;
  void TearDown() override;

  Result<nlohmann::json> Call(kube::ApiRequest request) { return user_.Call(std::move(request)); }
  nlohmann::json MustCall(kube::ApiRequest request);

  // Creates a ComputeDomain whose template is "<name>-channel" and returns its UID.
  std::string MakeComputeDomain(const std::string& name, nlohmann::json spec_changes = nlohmann::json::object());
  void DeleteComputeDomain(const std::string& name);
  // Creates or changes the IMEXNode as its plugin would. Node names are made unique with Name().
  void MakeNode(const std::string& node, const std::function<void(api::ImexNodeStatus&)>& change = {});
  void Report(const std::string& node, const std::function<void(api::ImexNodeStatus&)>& change);
  // A daemon that does what the assignment says.
  void ServeAssignment(const std::string& node);
  // Its GPUs have no fabric any more.
  void LeaveClique(const std::string& node);
  void Hold(const std::string& node, int channel, const std::string& compute_domain_uid);
  void HoldNothing(const std::string& node);
  // A pod and an allocated, reserved claim of the ComputeDomain on the node.
  Workload Run(const std::string& pod, const std::string& compute_domain_uid, const std::string& node,
               const std::string& ns = "");
  void End(const Workload& workload);

  std::string Name(const std::string& node) const { return ns_ + "-" + node; }
  std::optional<api::ImexDomain> Domain();
  std::optional<api::ImexNode> Node(const std::string& node);
  std::optional<api::ComputeDomain> ComputeDomain(const std::string& name);
  // "<status> <reason>" or "" when the condition is not there yet.
  std::string ConditionOf(const std::string& name, const std::string& type);
  // The lease of the ComputeDomain in this test's clique.
  std::optional<api::ChannelLease> Lease(const std::string& uid);
  int WaitForLease(const std::string& uid);
  std::string WakeOf(const Workload& workload);

  Connection user_;
  std::string ns_;
  std::string clique_;
  std::vector<std::string> nodes_;
  std::unique_ptr<ControllerProcess> controller_;
};

}  // namespace cd::integration
