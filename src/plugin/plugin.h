// The plugin without its gRPC face: wires state, watches and writers on one loop.
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
#include "src/plugin/linger_watch.h"
#include "src/plugin/node_driver.h"
#include "src/plugin/node_reporter.h"
#include "src/plugin/node_state.h"
#include "src/plugin/node_watch.h"
#include "src/plugin/own_node.h"
#include "src/plugin/slice_publisher.h"
#include "src/plugin/sweeper.h"

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

  // Makes the directories, reads the checkpoint, writes the CDI specs it names again and removes strays. All of it is done when
  // this returns, unless another instance holds the node lock just then: the rest follows as soon as the loop runs.
  // On the loop's thread, or before it runs.
  static Result<std::unique_ptr<Plugin>> Create(EventLoop& loop, kube::ApiClient& client, PluginOptions options);
  ~Plugin();  // on the loop's thread, or after it ran

  // Watches, fabric, publisher's lock. After this the kubelet may be answered.
  void Start(HealthHandler on_health);

  DraHandler& handler() { return driver_; }
  // The kubelet took this instance in. Before that nothing is offered: a pod the scheduler sends here too early fails its first
  // Prepare and is tried again only a minute later.
  void OnRegistered();
  // One of the two instances has published what this node offers.
  bool Published() const { return slices_.Published(); }

 private:
  Plugin(EventLoop& loop, kube::ApiClient& client, PluginOptions options);
  Status Recover();
  void Offer();
  OwnerSource Owner();
  void CheckNode();
  void FollowDaemonClaim();
  void SeekPublisherLock();
  void BecomePublisher();
  void OnFabric(const fabric::FabricView& fabric);
  void OnView();
  void OnCheckpoint();
  void ReconcileDaemon();
  void SetLabels();
  void SetHealth();

  EventLoop& loop_;
  const PluginOptions options_;
  ClaimFiles files_;
  NodeState state_;
  NodeReporter reporter_;
  NodeDriver driver_;
  NodeWatch watch_;
  DaemonLink daemon_;
  SlicePublisher slices_;
  OwnNode own_node_;
  KernelProcesses processes_;
  LingerWatch linger_;
  Sweeper sweeper_;
  FileLock publisher_lock_;
  bool publisher_ = false;
  bool registered_ = false;
  bool daemon_claimed_ = false;  // by a pod of the daemon set, on this node
  fabric::FabricView fabric_;
  bool fabric_read_ = false;
  HealthHandler on_health_;
  std::optional<DirectoryWatch> checkpoint_watch_;
  std::unique_ptr<FabricWatch> fabric_watch_;
};

}  // namespace cd::plugin
