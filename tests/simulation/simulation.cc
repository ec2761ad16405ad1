#include "tests/simulation/simulation.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace cd::simulation {

using Phase = PodWork::Phase;

namespace {

constexpr std::uint64_t kMostStepsToOrder = 60'000;
// After the faults: what a controller waits for an absent Node, and then some.
constexpr Duration kUntilPodsRun{25 * 60'000};
// The plugin's sweep is hourly.
constexpr Duration kUntilNothingIsLeft{150 * 60'000};

// Texts as the kernel driver shows them; one directory for the process.
const std::filesystem::path& KernelFiles() {
  static const std::filesystem::path path = [] {
    std::string name = (std::filesystem::temp_directory_path() / "cd-simulation-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) {
      std::ofstream(name + "/devices") << "Character devices:\n234 nvidia-caps-imex-channels\n";
      std::ofstream(name + "/params") << "ImexChannelCount: " << kChannels << "\n";
    }
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(KernelFiles(), ignored);
    });
    return std::filesystem::path(name);
  }();
  return path;
}

}  // namespace

std::string_view NameOf(Bug bug) {
  const auto it = std::find_if(kBugs.begin(), kBugs.end(), [&](const auto& item) { return item.first == bug; });
  return it->second;
}

Simulation::Simulation(const Options& options) : options_(options), context_(options.seed) {
  context_.bugs = options.bugs;
  context_.proc_devices = KernelFiles() / "devices";
  context_.driver_parameters = KernelFiles() / "params";
  if (options.trace) context_.trace.TurnOn(options.echo);
  SetUp();
  AddUserActions();
  AddFaults();
  ChooseTheme();
}

// What most runs hardly ever show, some show all the time.
void Simulation::ChooseTheme() {
  Dice& dice = context_.dice;
  const unsigned kRates[] = {0, 3, 10, 30};
  fault_rate_ = kRates[dice.Below(4)];
  action_rate_ = 10 + static_cast<unsigned>(dice.Below(30));
  context_.network.slow_messages = dice.PerMille(500) ? 0 : 150;
  const auto stress = [this](std::initializer_list<std::string_view> names) {
    fault_rate_ = 30;
    for (Fault& fault : faults_) {
      if (std::find(names.begin(), names.end(), fault.name) != names.end()) fault.weight = 30;
    }
  };
  switch (dice.Below(6)) {
    case 0:
      action_rate_ = 80;
      context_.network.slow_messages = 200;
      break;
    case 1:
      context_.slow_disk = 300;
      stress({"rolling update", "kubelet restart", "plugin crash", "slow disks"});
      break;
    case 2:
      stress({"IMEXDomain lost", "IMEXNode deleted by hand", "second leader", "controller crash"});
      break;
    case 3:
      stress({"Node deleted", "reboot", "clique change", "IMEXNode deleted by hand", "sick fabric"});
      break;
    case 4:
      stress({"bad network", "second leader", "history is compacted", "everybody stalls", "API outage"});
      break;
    default:
      break;
  }
}

Simulation::~Simulation() = default;

Outcome Simulation::Run() {
  while (context_.trace.step() < options_.steps && context_.violation.empty()) Step();
  if (context_.violation.empty()) Finish();
  outcome_.steps = context_.trace.step();
  outcome_.violation = context_.violation;
  outcome_.trace = context_.trace.lines();
  if (context_.trace.on()) outcome_.state = State();
  outcome_.containers = context_.next_pid - 100;
  return outcome_;
}

void Simulation::Step() {
  Dice& dice = context_.dice;
  context_.trace.NextStep();
  if (action_rate_ > 0 && dice.PerMille(action_rate_)) Play(user_actions_);
  if (fault_rate_ > 0 && dice.PerMille(fault_rate_)) Play(faults_);
  // Others are never infinitely faster than time.
  if (dice.PerMille(40)) {
    context_.clock.Advance(dice.Between(Duration(1), Duration(dice.PerMille(50) ? 3'000 : 60)));
    for (const auto& controller : controllers_) controller->TimePassed();
  }
  int idle = 0;
  while (!TakeTurn()) {
    AdvanceTime();
    if (++idle > 10'000) return context_.Violate("liveness", "nothing happens any more");
  }
  for (const auto& node : nodes_) {
    node->ReapPlugins();
    if (!node->powered() || !node->plugins().empty() || !node->TakeRestart()) continue;
    Later(Duration(500), Duration(20'000), [n = node.get()] { n->RestartPlugin(); });
  }
  if (std::exchange(context_.daemons_changed, false)) {
    for (const auto& node : nodes_) node->PeersChanged();
  }
  Check();
}

void Simulation::Play(std::vector<Fault>& choices) {
  unsigned sum = 0;
  for (const Fault& fault : choices) sum += fault.weight;
  if (sum == 0) return;
  auto drawn = context_.dice.Below(sum);
  for (Fault& fault : choices) {
    if (drawn < fault.weight) {
      if (context_.trace.on() && &choices == &faults_) context_.trace.Add("fault", fault.name);
      fault.play();
      return;
    }
    drawn -= fault.weight;
  }
}

std::vector<Simulation::Turn>& Simulation::CollectTurns() {
  // One for the process: it would be allocated in every step.
  static thread_local std::vector<Turn> turns;
  turns.clear();
  for (const auto& controller : controllers_) {
    if (controller->HasWork()) turns.push_back({1024, controller.get()});
  }
  for (const auto& node : nodes_) {
    for (const auto& plugin : node->plugins()) {
      if (plugin->HasWork()) turns.push_back({1024, plugin.get()});
    }
    if (node->powered() && node->KubeletWork() > 0) turns.push_back({512, Kubelet{node.get()}});
    if (node->DaemonHasWork()) turns.push_back({256, NodesDaemon{node.get()}});
  }
  for (auto it = context_.network.messages().begin(); it != context_.network.messages().end(); ++it) {
    if (context_.network.Ready(*it)) turns.push_back({it->speed, it});
  }
  for (const auto& watch : context_.network.watches()) {
    if (context_.network.Ready(*watch)) turns.push_back({watch->speed, &watch});
  }
  if (context_.environment.HasDue()) turns.push_back({1024, Environment{}});
  if ((turns.empty() || context_.dice.Below(8) == 0) && WorldHasWork()) turns.push_back({1024, World{}});
  return turns;
}

bool Simulation::TakeTurn() {
  const std::vector<Turn>& turns = CollectTurns();
  if (turns.empty()) return false;
  unsigned sum = 0;
  for (const Turn& turn : turns) sum += turn.weight;
  auto drawn = context_.dice.Below(sum);
  const Turn* turn = turns.data();
  while (drawn >= turn->weight) drawn -= (turn++)->weight;
  std::visit([this](const auto& who) { Take(who); }, turn->who);
  idle_jump_ = Duration(500);
  return true;
}

void Simulation::Take(ControllerProcess* controller) {
  controller->Step();
}
void Simulation::Take(PluginProcess* plugin) {
  plugin->Step();
}
void Simulation::Take(Kubelet kubelet) {
  kubelet.node->StepKubelet();
}
void Simulation::Take(NodesDaemon daemon) {
  daemon.node->StepDaemon();
}
void Simulation::Take(std::list<Message>::iterator message) {
  context_.network.Step(message);
}
void Simulation::Take(const std::shared_ptr<Watch>* watch) {
  context_.network.Step(*watch);
}
void Simulation::Take(Environment) {
  context_.environment.TakeDue()();
}
void Simulation::Take(World) {
  StepWorld();
}

// Nobody can do anything now: on to the next moment somebody can.
void Simulation::AdvanceTime() {
  const SteadyTime now = context_.clock.Now();
  // Keys in the controller's queue have no timer that could be seen from here.
  idle_jump_ = std::min(idle_jump_ * 2, Duration(30'000));
  SteadyTime next = now + idle_jump_;
  const auto consider = [&](std::optional<SteadyTime> time) {
    if (time && *time > now) next = std::min(next, *time);
  };
  consider(context_.environment.NextTimer());
  consider(context_.network.NextDeadline());
  for (const auto& controller : controllers_) consider(controller->NextTimer());
  for (const auto& node : nodes_) {
    for (const auto& plugin : node->plugins()) consider(plugin->NextTimer());
    for (const auto& [uid, work] : node->pods()) consider(work.due);
  }
  context_.clock.Advance(next - now);
  for (const auto& controller : controllers_) controller->TimePassed();
}

std::string Simulation::PodThatDoesNotRun() {
  for (const Workload& workload : workloads_) {
    if (deleted_nodes_.contains(workload.node)) continue;
    const auto node = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& n) { return n->Name() == workload.node; });
    const auto work = (*node)->pods().find(workload.pod.uid);
    const ObjectPtr pod = context_.server.Find(api::kPods, {workload.pod.ns, workload.pod.name});
    const ObjectPtr claim = context_.server.Find(api::kResourceClaims, {workload.claim.ns, workload.claim.name});
    if (pod == nullptr || pod->at("metadata").contains("deletionTimestamp") || claim == nullptr) continue;
    if (work == (*node)->pods().end()) return workload.pod.name + " is unknown to its kubelet";
    const auto& domains = context_.server.Objects(api::kComputeDomains);
    const bool served = std::any_of(domains.begin(), domains.end(), [&](const auto& item) {
      const auto& metadata = item.second->at("metadata");
      return metadata["uid"] == work->second.compute_domain_uid && !metadata.contains("deletionTimestamp");
    });
    if (!served || InConflict(workload) || !HasSlot(**node, work->second.compute_domain_uid) || HoldsElsewhere(**node)) continue;
    const auto domain = std::find_if(domains.begin(), domains.end(), [&](const auto& item) {
      return item.second->at("metadata")["uid"] == work->second.compute_domain_uid;
    });
    if (!InPartition(**node, *domain->second) || WaitsForItsGang(work->second.compute_domain_uid, *domain->second)) continue;
    const bool runs = work->second.phase == Phase::kRunning && (*node)->containers().contains(work->second.pid);
    if (!runs)
      return workload.pod.name + " on " + workload.node + " is in phase " + std::to_string(static_cast<int>(work->second.phase));
  }
  return "";
}

// True when its gang cannot form: too few nodes, or one of them can never serve it.
bool Simulation::WaitsForItsGang(const std::string& uid, const nlohmann::json& compute_domain) {
  const auto gate = context_.gates.find(uid);
  if (gate == context_.gates.end() || !gate->second.fails) return false;
  std::set<std::string> nodes;
  for (const Workload& workload : workloads_) {
    const ObjectPtr claim = context_.server.Find(api::kResourceClaims, {workload.claim.ns, workload.claim.name});
    if (claim == nullptr || claim->at("/spec/devices/config/0/opaque/parameters/domainID"_json_pointer) != uid) continue;
    const auto node = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& n) { return n->Name() == workload.node; });
    const bool never = deleted_nodes_.contains(workload.node) || !HasSlot(**node, uid) || HoldsElsewhere(**node);
    if (never || InConflict(workload) || !InPartition(**node, compute_domain)) return true;
    nodes.insert(workload.node);
  }
  return nodes.size() < static_cast<std::size_t>(gate->second.min_nodes);
}

// True unless its pods have to run in another clique.
bool Simulation::InPartition(const Node& node, const nlohmann::json& compute_domain) const {
  const std::string partition = compute_domain.value("/status/partition"_json_pointer, "");
  return partition.empty() || node.clique().empty() || partition == node.clique();
}

// True unless other nodes have all slots of the IMEX domain.
bool Simulation::HasSlot(const Node& node, const std::string& compute_domain_uid) {
  const bool exclusive = kinds_[compute_domain_uid].exclusive;
  const ObjectPtr object =
      context_.server.Find(api::kImexDomains, {"", api::DomainName({node.clique(), exclusive ? compute_domain_uid : ""})});
  if (object == nullptr) return true;
  const auto domain = api::DecodeImexDomain(*object);
  return api::FindMember(*domain, node.Name()) != nullptr || static_cast<int>(domain->members.size()) < domain->node_slots;
}

// True while a process there holds a channel of another clique's domain: the GPUs have moved under it, and until it ends the node
// can serve nobody else.
bool Simulation::HoldsElsewhere(const Node& node) {
  return std::any_of(node.containers().begin(), node.containers().end(),
                     [&](const auto& item) { return item.second.channel != 0 && item.second.domain != node.clique(); });
}

bool Simulation::Await(Duration limit, const char* rule, const std::function<std::string()>& missing) {
  const SteadyTime end = context_.clock.Now() + limit;
  const std::uint64_t last_step = context_.trace.step() + kMostStepsToOrder;
  std::string left = missing();
  // Looked at now and then: it costs more than a step.
  while (!left.empty() && context_.violation.empty()) {
    for (int i = 0; i < 20 && context_.violation.empty(); ++i) Step();
    left = missing();
    if (context_.clock.Now() > end)
      context_.Violate(rule, left + ", " + std::to_string(limit.count() / 60'000) + " min after the last fault");
    if (context_.trace.step() > last_step) context_.Violate(rule, left + ", and no end of steps");
  }
  return context_.violation.empty();
}

void Simulation::Finish() {
  Heal();
  if (!Await(kUntilPodsRun, "liveness", [this] { return PodThatDoesNotRun(); })) return;
  context_.trace.Add("user", "deletes everything");
  for (const Workload& workload : workloads_) {
    (void)context_.server.Handle(kube::Delete(api::kPods, {workload.pod.ns, workload.pod.name}));
  }
  std::vector<api::ObjectKey> domains;
  for (const auto& [key, object] : context_.server.Objects(api::kComputeDomains)) domains.push_back(key);
  for (const api::ObjectKey& key : domains) (void)context_.server.Handle(kube::Delete(api::kComputeDomains, key));
  Await(kUntilNothingIsLeft, "leak", [this] {
    for (const auto& node : nodes_) node->EndAllGraces();
    return WhatIsLeft();
  });
}

}  // namespace cd::simulation
