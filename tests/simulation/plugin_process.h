// One life of a kubelet plugin: the real Instance on a simulated executor, disk and process table. Daemon files, fabric and
// inotify are played by the node; the ResourceSlice and the kubelet's health stream are not played.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/fabric/daemon_files.h"
#include "src/fabric/fabric_probe.h"
#include "src/plugin/dra_server.h"
#include "src/plugin/processes.h"
#include "tests/simulation/context.h"
#include "tests/simulation/fiber.h"
#include "tests/simulation/memory_disk.h"

namespace cd::simulation {

// What the node gives its plugins.
class PluginHost {
 public:
  virtual ~PluginHost() = default;
  virtual const std::string& Name() const = 0;
  virtual std::string BootId() const = 0;
  virtual fabric::FabricView Fabric() const = 0;
  virtual api::NodeDaemon DaemonStatus() const = 0;
  virtual std::optional<fabric::Desired> Desired() const = 0;
  virtual void SetDesired(const fabric::Desired& desired) = 0;
  virtual std::shared_ptr<DiskContent> DiskOf() = 0;
  virtual std::vector<std::pair<pid_t, std::string>> ProcessesWithMarker() const = 0;
};

class PluginProcess final : private plugin::Processes {
 public:
  PluginProcess(Context& context, PluginHost& host);
  ~PluginProcess() override;

  // True: a step of this process can change something.
  bool HasWork() const;
  void Step();
  std::optional<SteadyTime> NextTimer() const { return executor_.NextTimer(); }
  // Ended by itself: to be destroyed.
  bool dead() const { return dead_; }
  // The process ends at its n-th disk call from now.
  void CrashAfter(int disk_calls) { crash_in_ = disk_calls; }

  bool registered() const { return registered_; }
  void Prepare(plugin::CallId call, const api::ObjectRef& claim, std::function<void(plugin::PrepareResult)> done);
  void Unprepare(const api::ObjectRef& claim, std::function<void(Status)> done);
  void Cancel(plugin::CallId call);

  void FabricChanged();
  void DaemonChanged();
  void CheckpointChanged();
  void ProcessEnded(pid_t pid);

  const std::string& name() const { return name_; }

 private:
  struct Core;

  void Run(const std::function<void()>& task);
  void BeforeDiskCall();
  void InstallBugs();
  fabric::FabricView Fabric() const;

  Result<std::map<std::string, std::vector<pid_t>>> Holders(const std::set<std::string>& claims) override;
  Following Follow(pid_t pid, std::function<void()> ended) override;
  void Forget(pid_t pid) override { followed_.erase(pid); }

  Context& context_;
  PluginHost& host_;
  const std::string name_;
  SimulatedExecutor executor_;
  MemoryDisk disk_;
  Client client_;
  Fiber fiber_;
  std::map<pid_t, std::function<void()>> followed_;
  bool dead_ = false;
  bool registered_ = false;
  int crash_in_ = 0;
  std::unique_ptr<Core> core_;
};

}  // namespace cd::simulation
