// The plugin without its gRPC face: an Instance on a real node, and what that node offers.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/directory_watch.h"
#include "src/base/event_loop.h"
#include "src/kube/client.h"
#include "src/plugin/claim_files.h"
#include "src/plugin/daemon_link.h"
#include "src/plugin/fabric_watch.h"
#include "src/plugin/instance.h"
#include "src/plugin/processes.h"
#include "src/plugin/slice_publisher.h"

namespace cd::plugin {

struct PluginOptions {
  std::string node;
  std::string daemon_namespace;
  std::string instance;  // unlike any other process's
  std::string boot_id;
  ClaimFiles::Paths paths;
  std::filesystem::path proc_root = "/proc";
  int slots = 32;
  DeviceModeChoice device_mode = DeviceModeChoice::kAuto;
  std::uint64_t seed = 1;
};

class Plugin {
 public:
  using HealthHandler = std::function<void(std::vector<DeviceHealth>)>;

  // With what Instance::Recover does. On the loop's thread, or before it runs.
  static Result<std::unique_ptr<Plugin>> Create(EventLoop& loop, kube::ApiClient& client, PluginOptions options);
  ~Plugin();  // on the loop's thread, or after it ran

  // Watches, fabric, publisher's lock. After this the kubelet may be answered.
  void Start(HealthHandler on_health);

  DraHandler& handler() { return instance_.driver(); }
  // The kubelet took this instance in. Before that nothing is offered: a pod the scheduler sends here too early fails its first
  // Prepare and is tried again only a minute later.
  void OnRegistered() { instance_.OnRegistered(); }
  // One of the two instances has published what this node offers.
  bool Published() const { return slices_.Published(); }

 private:
  Plugin(EventLoop& loop, kube::ApiClient& client, PluginOptions options);
  void OnFabric(const fabric::FabricView& fabric);
  void SetHealth();

  EventLoop& loop_;
  const PluginOptions options_;
  KernelProcesses processes_;
  DaemonLink daemon_;
  Instance instance_;
  SlicePublisher slices_;
  std::optional<fabric::FabricView> fabric_;
  HealthHandler on_health_;
  std::optional<DirectoryWatch> checkpoint_watch_;
  std::unique_ptr<FabricWatch> fabric_watch_;
};

}  // namespace cd::plugin
