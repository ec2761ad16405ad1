// One seeded run: a small cluster, a scheduler that draws every next step, faults, and the rules checked after each step.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tests/simulation/controller_process.h"
#include "tests/simulation/node.h"

namespace cd::simulation {

struct Options {
  std::uint64_t seed = 1;
  std::uint64_t steps = 3'000;  // with faults; the run then goes on without until all is in order
  unsigned gated = 300;         // per mille of ComputeDomains with gating
  std::set<Bug> bugs;
  bool trace = false;
  bool echo = false;  // the trace goes to stderr as it grows
};

struct Outcome {
  std::uint64_t steps = 0;
  std::string violation;  // empty: none
  std::vector<std::string> trace;
  std::string state;  // at the end of a traced run
  // What the run exercised.
  std::uint64_t containers = 0;
  std::uint64_t freed_channels = 0;
  std::uint64_t formations = 0;  // gangs that were let go where only forming, and no time-out, lets them
};

class Simulation {
 public:
  explicit Simulation(const Options& options);
  ~Simulation();

  Outcome Run();

 private:
  struct Fault {
    const char* name;
    unsigned weight;
    std::function<bool()> play;  // false: not possible now
  };
  struct Workload {
    api::ObjectRef pod;
    api::ObjectRef claim;
    std::string node;
    bool shared = false;
  };

  // Who can do something now, and how likely it is to be the next one.
  struct Kubelet {
    Node* node;
  };
  struct NodesDaemon {
    Node* node;
  };
  struct Environment {};
  struct World {};
  struct Turn {
    unsigned weight;
    std::variant<ControllerProcess*, PluginProcess*, Kubelet, NodesDaemon, std::list<Message>::iterator,
                 const std::shared_ptr<Watch>*, Environment, World>
        who;
  };

  // ---- the scheduler (simulation.cc)
  void ChooseTheme();
  void Step();
  void Play(std::vector<Fault>& choices);
  std::vector<Turn>& CollectTurns();
  // False: nobody can do anything before time passes.
  bool TakeTurn();
  void Take(ControllerProcess* controller);
  void Take(PluginProcess* plugin);
  void Take(Kubelet kubelet);
  void Take(NodesDaemon daemon);
  void Take(std::list<Message>::iterator message);
  void Take(const std::shared_ptr<Watch>* watch);
  void Take(Environment);
  void Take(World);
  void AdvanceTime();
  void Finish();
  // Goes on until nothing is missing; a violation after `limit`.
  bool Await(Duration limit, const char* rule, const std::function<std::string()>& missing);
  std::string PodThatDoesNotRun();
  bool HasSlot(const Node& node, const std::string& compute_domain_uid);
  bool InConflict(const Workload& workload);
  static bool HoldsElsewhere(const Node& node);
  bool WaitsForItsGang(const std::string& compute_domain_uid, const nlohmann::json& compute_domain);
  bool InPartition(const Node& node, const nlohmann::json& compute_domain) const;

  // ---- what users and the cluster's other parts do (world.cc)
  void SetUp();
  void AddUserActions();
  bool Fits(const nlohmann::json& claim_spec, const Node& node) const;
  bool CreateComputeDomain();
  bool DeleteComputeDomain();
  nlohmann::json DrawGating();
  std::vector<int> ConnectedWith(const std::string& node) const;
  void CountGangs();
  bool CreatePod();
  bool Takes(const Node& node, const std::string& compute_domain_uid) const;
  bool CreatePodOnSharedClaim();
  bool DeletePod(bool force);
  bool CleanUpClaims();
  bool CollectGarbage();
  bool CollectTemplates();
  bool WorldHasWork();
  void StepWorld();

  // ---- faults (faults.cc)
  void AddFaults();
  // False: not possible now.
  bool CrashPlugin();
  bool CrashPluginAtDiskCall();
  bool RollPlugin();
  bool RestartKubelet();
  bool CrashDaemon();
  bool Reboot();
  bool DeleteNode();
  bool CrashController();
  bool StartSecondLeader();
  bool UpgradeDaemons();
  bool StopApi();
  bool SpoilNetwork();
  bool CompactHistory();
  bool SlowDisks();
  bool SpoilDisk();
  bool DeleteImexDomain();
  bool LoseImexDomain();
  bool DeleteImexNode();
  bool ChangeClique();
  bool SickenFabric();
  bool LoseClaim();
  bool JumpWallClock();
  bool StallEverybody();
  void Heal();
  bool AllReported();
  bool RebuildPending() const;
  void ReturnNode(Node& node);
  Node& AnyNode() { return *context_.dice.Pick(nodes_); }
  void Later(Duration low, Duration high, std::function<void()> task);

  // ---- rules (rules.cc)
  void Check();
  void CheckHolders();
  void CheckSharing();
  void CheckAssignment(const api::ObjectKey& key, const ObjectPtr& now);
  bool IsGranted(const std::string& imex_domain, const std::string& compute_domain_uid, int channel) const;
  void CheckMoved();
  void CheckDaemons();
  void CheckPartitions();
  void CheckGates();
  bool InUse(const Node& node, const Container& container);
  void CheckDomainObject(const nlohmann::json& object);
  std::string WhatIsLeft();
  std::string State() const;

  const Options options_;
  Context context_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<ControllerProcess>> controllers_;
  std::vector<Fault> user_actions_;
  std::vector<Fault> faults_;
  std::vector<Workload> workloads_;  // pods as the API knows, or knew a moment ago
  std::vector<std::string> cliques_;
  // What ComputeDomains are in truth, whatever the product takes them for; by UID.
  struct Kind {
    bool exclusive = false;  // isolationMode Domain
    bool all = false;        // allocationMode All
  };
  std::map<std::string, Kind> kinds_;
  unsigned exclusive_ = 0;                          // per mille of ComputeDomains
  bool careless_ = false;                           // an allocator that does not account for the slots of a node
  std::map<api::ObjectKey, ObjectPtr> imex_nodes_;  // as they were stored last
  // IMEX domain that a node was taken out of last, until it is assigned anew.
  std::map<std::string, std::string> left_domains_;
  std::set<std::string> deleted_nodes_;  // Node objects that are absent
  std::set<std::string> lost_domains_;   // IMEXDomains that were lost and not made anew yet
  bool calm_ = false;                    // faults have ended
  unsigned action_rate_ = 20;            // per mille of steps
  unsigned fault_rate_ = 8;
  Duration idle_jump_{500};
  SteadyTime next_collection_{};  // of IMEXNodes without owner
  SteadyTime next_template_collection_{};
  std::uint64_t checked_pids_ = 0;  // by CheckGates
  int names_ = 1;
  int wrap_ = 3;        // channels in use before next-fit starts at 1 again
  int node_slots_ = 3;  // length of the node map
  Outcome outcome_;
};

}  // namespace cd::simulation
