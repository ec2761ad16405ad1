// One machine: its kubelet as the real one was seen to behave, containers whose processes hold channels, an IMEX daemon that does
// what it is told, a disk, and one or two plugin instances.
//
// The kubelet repeats a failed Prepare after 60–90 s or when the pod object changes; it does not cancel a Prepare because the pod
// was deleted; it unprepares a force-deleted pod's claim while containers may live for as long as their grace time.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/plugin_process.h"

namespace cd::simulation {

// A process that has a channel open.
struct Container {
  std::string pod_uid;
  std::string claim_uid;  // whose marker it has mounted
  std::string domain;     // IMEX domain
  int channel = 0;        // 0: it has none
  int devices = 0;        // channels it could open
  std::string compute_domain_uid;
};

struct Daemon {
  bool pod = false;      // the daemon's pod runs
  bool running = false;  // so does nvidia-imex
  bool ready = false;
  std::string instance;
  std::string address;
  std::string revision;
  std::string pod_name;
  std::string pod_uid;
  fabric::DesiredDomain domain;
};

// The kubelet's work on one pod.
struct PodWork {
  enum class Phase {
    kWaiting,      // for its claim, next try at `due`
    kPreparing,    // a call is on its way
    kPrepared,     // a container is to be started
    kRunning,      // `pid`, or a container is to be started again
    kEnding,       // told to end
    kUnpreparing,  // Unprepare is to be called at `due`
    kCalled,       // a call is on its way
  };
  api::ObjectRef pod;
  api::ObjectRef claim;
  std::string compute_domain_uid;  // the claim's, in truth
  Phase phase = Phase::kWaiting;
  SteadyTime due{};
  plugin::CallId call = 0;
  pid_t pid = 0;
  bool deleting = false;  // as seen by the kubelet
  bool gone = false;      // the same, of the API object
  bool forced = false;
  std::string wake;
};

class Node final : public PluginHost {
 public:
  // Without a clique: a machine without fabric.
  Node(Context& context, std::string name, std::string clique);
  ~Node() override;

  // ---- the scheduler's side
  std::size_t KubeletWork();  // pods something can be done for
  void StepKubelet();
  bool DaemonHasWork() const;
  void StepDaemon();
  std::vector<std::unique_ptr<PluginProcess>>& plugins() { return plugins_; }
  void ReapPlugins();

  // ---- the world's side
  void Bind(const api::ObjectRef& pod, const api::ObjectRef& claim, const std::string& compute_domain_uid);
  void StartPlugin();
  void StopPlugin(std::size_t which);  // at once: what a crash and the end of a drained instance have in common
  void CrashPlugin(std::size_t which, int disk_calls) { plugins_[which]->CrashAfter(disk_calls); }
  // True once for each time the node is without a plugin: its pod is started again a while later.
  bool TakeRestart() { return !std::exchange(restarting_, true); }
  void RestartPlugin() {
    restarting_ = false;
    if (plugins_.empty()) StartPlugin();
  }
  void RestartKubelet();
  void StartDaemon();
  void PeersChanged() { TellPlugins(&PluginProcess::DaemonChanged); }
  void CrashDaemon();
  void PowerOff();
  void PowerOn();
  void SetFabric(api::FabricState state, const std::string& clique);
  // A container's process ends by itself; its kubelet starts another one.
  void EndSomeContainer();
  // Whatever still runs gets no more time: the end of every grace period.
  void EndAllGraces();

  bool powered() const { return powered_; }
  const std::string& clique() const { return clique_; }
  api::FabricState fabric_state() const { return fabric_; }
  const Daemon& daemon() const { return daemon_; }
  const std::map<pid_t, Container>& containers() const { return containers_; }
  const std::map<std::string, PodWork>& pods() const { return pods_; }
  const DiskContent& disk() const { return *disk_; }
  DiskContent& mutable_disk() { return *disk_; }

  // ---- PluginHost
  const std::string& Name() const override { return name_; }
  std::string BootId() const override { return name_ + "-boot-" + std::to_string(boot_); }
  fabric::FabricView Fabric() const override;
  api::NodeDaemon DaemonStatus() const override;
  std::optional<fabric::Desired> Desired() const override { return desired_; }
  void SetDesired(const fabric::Desired& desired) override;
  std::shared_ptr<DiskContent> DiskOf() override { return disk_; }
  std::vector<std::pair<pid_t, std::string>> ProcessesWithMarker() const override;

 private:
  bool Actionable(const PodWork& work) const;
  bool Observable(const PodWork& work) const;
  void Observe(PodWork& work);
  void Act(PodWork& work);
  void CallPrepare(PodWork& work);
  void Prepared(const std::string& pod_uid, plugin::CallId call, const plugin::PrepareResult& result);
  void StartContainer(PodWork& work);
  void CheckFallBack(const PodWork& work, const Container& container);
  void BeginToEnd(PodWork& work);
  void CallUnprepare(PodWork& work);
  void Unprepared(const std::string& pod_uid, plugin::CallId call, const Status& result);
  void Finish(const std::string& pod_uid);
  void EndContainer(pid_t pid);
  void AbandonCalls();
  PluginProcess* PickPlugin();
  void TellPlugins(void (PluginProcess::*what)());
  bool IsInPlace() const;
  bool DaemonPodEnds() const;
  void EndDaemonPod();
  void StopImex(const char* why);

  Context& context_;
  const std::string name_;
  std::string clique_;
  api::FabricState fabric_ = api::FabricState::kReady;
  bool powered_ = true;
  bool restarting_ = false;
  int boot_ = 1;
  int pod_ips_ = 1;
  int daemon_pods_ = 1;
  std::shared_ptr<DiskContent> disk_ = std::make_shared<DiskContent>();
  std::optional<fabric::Desired> desired_;
  Daemon daemon_;
  std::map<pid_t, Container> containers_;
  std::map<std::string, PodWork> pods_;  // by UID
  std::set<std::string> unpreparing_;    // claims for which no Prepare was called after the Unprepare under way
  std::set<std::string> unprepared_;     // claims for which no Prepare was called after a successful Unprepare
  std::vector<std::unique_ptr<PluginProcess>> plugins_;
};

}  // namespace cd::simulation
