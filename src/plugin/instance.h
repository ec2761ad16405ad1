// One instance of the plugin, without the machine under it: wires state, watches and writers on one executor. Two instances share
// a node during a rolling update; the one that holds the publisher's lock writes.
//
// What touches files, processes and the daemon comes from outside, so that the simulation runs this very wiring. Executor's
// thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/base/disk.h"
#include "src/base/executor.h"
#include "src/fabric/fabric_probe.h"
#include "src/kube/client.h"
#include "src/plugin/claim_files.h"
#include "src/plugin/daemon_link.h"
#include "src/plugin/linger_watch.h"
#include "src/plugin/node_driver.h"
#include "src/plugin/node_reporter.h"
#include "src/plugin/node_state.h"
#include "src/plugin/node_watch.h"
#include "src/plugin/own_node.h"
#include "src/plugin/sweeper.h"

namespace cd::plugin {

struct InstanceOptions {
  std::string node;
  std::string daemon_namespace;
  std::string instance;  // unlike any other process's
  std::string boot_id;
  ClaimFiles::Paths paths;
  int slots = api::kDefaultSlots;  // pods with a channel at a time
  std::uint64_t watch_seed = 1;
  std::uint64_t node_seed = 2;
};

// All of it outlives the instance.
struct Machine {
  Executor& executor;
  kube::ApiClient& client;
  Disk& disk;
  Processes& processes;
  DaemonOrders& daemon;
};

class Instance {
 public:
  struct Handlers {
    // This instance publishes, and the kubelet has taken it in: the node's devices may be offered.
    std::function<void()> on_may_offer = {};
    // Puts something between the driver and its reporter: for the simulation's planted defects.
    std::function<std::unique_ptr<ChannelReport>(ChannelReport& reporter)> report_through = {};
  };
  Instance(const Machine& machine, InstanceOptions options, Handlers handlers);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // Makes the directories, reads the checkpoint, writes the CDI specs it names again and removes strays. All of it is done when
  // this returns, unless another instance holds the node lock just then: the rest follows as soon as the executor runs.
  Status Recover();
  // Begins to watch the API. The driver may be called from here on.
  void Start();
  // After what the machine says at the start was told: the first report tells all of it.
  void SeekPublisherLock();

  // The kubelet took this instance in.
  void OnRegistered();
  void SetFabric(const fabric::FabricView& fabric);
  void SetDaemon(const api::NodeDaemon& daemon);
  // Another instance may have changed the checkpoint.
  void CheckpointWritten() { state_.Refresh(); }

  NodeDriver& driver() { return driver_; }
  const NodeView& view() const { return *watch_.view(); }
  // Who owns what is created now.
  OwnerSource Owner();

 private:
  void BecomePublisher();
  void MayOffer();
  void CheckNode();
  void FollowDaemonClaim();
  void OnView();
  void OnCheckpoint();
  void ReconcileDaemon();
  void SetLabels();

  Executor& executor_;
  DaemonOrders& daemon_;
  const InstanceOptions options_;
  const Handlers handlers_;
  ClaimFiles files_;
  NodeState state_;
  NodeReporter reporter_;
  const std::unique_ptr<ChannelReport> before_reporter_;
  NodeDriver driver_;
  NodeWatch watch_;
  OwnNode own_node_;
  LingerWatch linger_;
  Sweeper sweeper_;
  FileLock publisher_lock_;
  bool publisher_ = false;
  bool registered_ = false;
  bool daemon_claimed_ = false;  // by a pod of the daemon set, on this node
  std::optional<fabric::FabricView> fabric_;
};

}  // namespace cd::plugin
