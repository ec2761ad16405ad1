// What goes wrong, and how it is put right again.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/simulation/simulation.h"

namespace cd::simulation {

namespace {

const api::ResourceType* const kWatched[] = {&api::kComputeDomains, &api::kImexDomains, &api::kImexNodes, &api::kResourceClaims,
                                             &api::kResourceClaimTemplates};

}  // namespace

void Simulation::Later(Duration low, Duration high, std::function<void()> task) {
  context_.environment.PostAfter(context_.dice.Between(low, high), std::move(task));
}

void Simulation::AddFaults() {
  faults_ = {
      {"plugin crash", 6, [this] { return CrashPlugin(); }},
      {"plugin crash between disk calls", 8, [this] { return CrashPluginAtDiskCall(); }},
      {"rolling update", 5, [this] { return RollPlugin(); }},
      {"kubelet restart", 3, [this] { return RestartKubelet(); }},
      {"daemon crash", 3, [this] { return CrashDaemon(); }},
      {"reboot", 3, [this] { return Reboot(); }},
      {"Node deleted", 2, [this] { return DeleteNode(); }},
      {"controller crash", 4, [this] { return CrashController(); }},
      {"second leader", 4, [this] { return StartSecondLeader(); }},
      {"upgrade of the daemons", 2, [this] { return UpgradeDaemons(); }},
      {"API outage", 2, [this] { return StopApi(); }},
      {"bad network", 3, [this] { return SpoilNetwork(); }},
      {"history is compacted", 2, [this] { return CompactHistory(); }},
      {"slow disks", 3, [this] { return SlowDisks(); }},
      {"disk that takes nothing", 2, [this] { return SpoilDisk(); }},
      {"IMEXDomain deleted by hand", 1, [this] { return DeleteImexDomain(); }},
      {"IMEXDomain lost", 2, [this] { return LoseImexDomain(); }},
      {"IMEXNode deleted by hand", 1, [this] { return DeleteImexNode(); }},
      {"clique change", 1, [this] { return ChangeClique(); }},
      {"sick fabric", 1, [this] { return SickenFabric(); }},
      {"claim vanishes", 1, [this] { return LoseClaim(); }},
      {"wall clock jumps", 1, [this] { return JumpWallClock(); }},
      {"everybody stalls", 3, [this] { return StallEverybody(); }},
  };
  // Not every run has every fault: rare ones show best without the others.
  for (Fault& fault : faults_) {
    if (context_.dice.PerMille(350)) fault.weight = 0;
  }
}

bool Simulation::CrashPlugin() {
  Node& node = AnyNode();
  if (node.plugins().empty()) return false;
  node.StopPlugin(context_.dice.Below(node.plugins().size()));
  return true;
}

bool Simulation::CrashPluginAtDiskCall() {
  Node& node = AnyNode();
  if (node.plugins().empty()) return false;
  // One after the other: a seed means the same run for every compiler.
  const int disk_calls = 1 + static_cast<int>(context_.dice.Below(12));
  node.CrashPlugin(context_.dice.Below(node.plugins().size()), disk_calls);
  return true;
}

bool Simulation::RollPlugin() {
  Node& node = AnyNode();
  if (node.plugins().size() != 1) return false;
  node.StartPlugin();
  Later(Duration(0), Duration(60'000), [&node] {
    if (node.plugins().size() == 2) node.StopPlugin(0);
  });
  return true;
}

bool Simulation::RestartKubelet() {
  Node& node = AnyNode();
  if (node.powered()) node.RestartKubelet();
  return true;
}

bool Simulation::CrashDaemon() {
  Node& node = AnyNode();
  node.CrashDaemon();
  Later(Duration(100), Duration(10'000), [&node] { node.StartDaemon(); });
  return true;
}

bool Simulation::Reboot() {
  Node& node = AnyNode();
  if (!node.powered()) return false;
  node.PowerOff();
  Later(Duration(5'000), Duration(300'000), [this, &node] {
    if (deleted_nodes_.contains(node.Name())) return;
    node.PowerOn();
    Later(Duration(0), Duration(20'000), [&node] { node.StartDaemon(); });
  });
  return true;
}

bool Simulation::CrashController() {
  if (controllers_.size() != 1) return false;
  context_.trace.Add(controllers_[0]->name(), "crashes");
  controllers_.clear();
  Later(Duration(0), Duration(30'000), [this] {
    if (controllers_.empty()) controllers_.push_back(std::make_unique<ControllerProcess>(context_));
  });
  return true;
}

bool Simulation::StartSecondLeader() {
  if (controllers_.size() != 1) return false;
  controllers_.push_back(std::make_unique<ControllerProcess>(context_));
  context_.trace.Add(controllers_[1]->name(), "leads beside", controllers_[0]->name());
  Later(Duration(0), Duration(30'000), [this] {
    if (controllers_.size() == 2) controllers_.erase(controllers_.begin());
  });
  return true;
}

// The controller of the revision before may lead for a while.
bool Simulation::UpgradeDaemons() {
  if (controllers_.size() != 1) return false;
  ++context_.daemon_revision;
  return StartSecondLeader();
}

bool Simulation::StopApi() {
  context_.network.outage = true;
  Later(Duration(1'000), Duration(120'000), [this] { context_.network.outage = false; });
  return true;
}

bool Simulation::SpoilNetwork() {
  context_.network.faults = {60, 60, 60, 60, 60};
  Later(Duration(1'000), Duration(60'000), [this] { context_.network.faults = {}; });
  return true;
}

bool Simulation::CompactHistory() {
  context_.server.Compact(kWatched[context_.dice.Below(std::size(kWatched))]->plural);
  return true;
}

bool Simulation::SlowDisks() {
  context_.slow_disk = 300;
  Later(Duration(1'000), Duration(60'000), [this] { context_.slow_disk = 0; });
  return true;
}

bool Simulation::SpoilDisk() {
  DiskContent& disk = AnyNode().mutable_disk();
  if (disk.fault != DiskFault::kNone) return false;
  disk.fault = context_.dice.PerMille(700) ? DiskFault::kFull : DiskFault::kReadOnlyCdi;
  Later(Duration(1'000), Duration(120'000), [&disk] { disk.fault = DiskFault::kNone; });
  return true;
}

bool Simulation::DeleteImexDomain() {
  const auto& domains = context_.server.Objects(api::kImexDomains);
  if (domains.empty()) return false;
  const api::ObjectKey key = domains.begin()->first;
  (void)context_.server.Handle(kube::Delete(api::kImexDomains, key));
  return true;
}

bool Simulation::LoseImexDomain() {
  const auto& domains = context_.server.Objects(api::kImexDomains);
  if (domains.empty()) return false;
  if (!AllReported()) return false;
  auto it = domains.begin();
  std::advance(it, context_.dice.Below(domains.size()));
  lost_domains_.insert(it->first.name);
  context_.server.Erase(api::kImexDomains, api::ObjectKey(it->first));
  return true;
}

bool Simulation::DeleteImexNode() {
  if (RebuildPending()) return false;
  context_.server.Erase(api::kImexNodes, {"", AnyNode().Name()});
  return true;
}

bool Simulation::ChangeClique() {
  Node& node = AnyNode();
  if (node.clique().empty()) return false;
  node.SetFabric(api::FabricState::kReady, context_.dice.Pick(cliques_));
  return true;
}

bool Simulation::SickenFabric() {
  Node& node = AnyNode();
  if (node.clique().empty()) return false;
  node.SetFabric(context_.dice.PerMille(500) ? api::FabricState::kDegraded : api::FabricState::kForming, node.clique());
  Later(Duration(1'000), Duration(120'000), [&node] { node.SetFabric(api::FabricState::kReady, node.clique()); });
  return true;
}

bool Simulation::LoseClaim() {
  const auto& claims = context_.server.Objects(api::kResourceClaims);
  if (claims.empty()) return false;
  context_.server.Erase(api::kResourceClaims, api::ObjectKey(claims.begin()->first));
  return true;
}

bool Simulation::JumpWallClock() {
  context_.clock.JumpWall(Duration(static_cast<std::int64_t>(context_.dice.Below(7'200'000)) - 3'600'000));
  return true;
}

bool Simulation::StallEverybody() {
  context_.clock.Advance(context_.dice.Between(Duration(500), Duration(15'000)));
  for (const auto& controller : controllers_) controller->TimePassed();
  return true;
}

// An IMEXDomain and the IMEXNode of a member are not lost together: nothing would be left that says what the node holds.
bool Simulation::AllReported() {
  if (!deleted_nodes_.empty()) return false;
  return std::all_of(nodes_.begin(), nodes_.end(), [this](const auto& node) {
    const ObjectPtr object = context_.server.Find(api::kImexNodes, {"", node->Name()});
    return object != nullptr && !object->value("/status/bootID"_json_pointer, "").empty();
  });
}

bool Simulation::RebuildPending() const {
  return !lost_domains_.empty();
}

// With the machine: it is off before its Node counts as absent for 15 minutes, or the Node is back before that. What runs on
// after that is beyond what any API object can tell.
bool Simulation::DeleteNode() {
  Node& node = AnyNode();
  if (RebuildPending()) return false;
  if (deleted_nodes_.size() + 1 >= nodes_.size() || !deleted_nodes_.insert(node.Name()).second) return false;
  context_.trace.Add("user", "deletes Node", node.Name());
  context_.server.Erase(api::kNodes, {"", node.Name()});
  if (context_.dice.PerMille(500)) {
    if (context_.dice.PerMille(500)) {
      node.PowerOff();
    } else {
      Later(Duration(1'000), Duration(840'000), [this, &node] {
        if (deleted_nodes_.contains(node.Name())) node.PowerOff();
      });
    }
    Later(Duration(60'000), Duration(3'600'000), [this, &node] { ReturnNode(node); });
  } else {
    Later(Duration(1'000), Duration(840'000), [this, &node] { ReturnNode(node); });
  }
  return true;
}

// Its kubelet registers it anew, and the plugin's pod is a new one.
void Simulation::ReturnNode(Node& node) {
  if (deleted_nodes_.erase(node.Name()) == 0) return;
  context_.trace.Add("user", "Node is back", node.Name());
  (void)context_.server.Handle(kube::Create(api::kNodes, "", {{"metadata", {{"name", node.Name()}}}}));
  if (!node.powered()) return node.PowerOn();
  while (!node.plugins().empty()) node.StopPlugin(0);
  node.RestartKubelet();
}

void Simulation::Heal() {
  context_.trace.Add("world", "faults end");
  calm_ = true;
  fault_rate_ = 0;
  action_rate_ = 0;
  context_.network.faults = {};
  context_.network.outage = false;
  context_.network.slow_messages = 0;
  context_.slow_disk = 0;
  while (controllers_.size() > 1) controllers_.erase(controllers_.begin());
  if (controllers_.empty()) controllers_.push_back(std::make_unique<ControllerProcess>(context_));
  for (const auto& node : nodes_) {
    // Some machines never come back.
    if (deleted_nodes_.contains(node->Name())) {
      if (context_.dice.PerMille(500)) {
        node->PowerOff();
        continue;
      }
      ReturnNode(*node);
    }
    node->mutable_disk().fault = DiskFault::kNone;
    node->PowerOn();
    while (node->plugins().size() > 1) node->StopPlugin(0);
    node->StartDaemon();
    const bool sick = !node->clique().empty() && node->fabric_state() != api::FabricState::kReady;
    if (sick) node->SetFabric(api::FabricState::kReady, node->clique());
  }
}

}  // namespace cd::simulation
