// What users, scheduler, claim controller, pod and object garbage collection do.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/simulation/simulation.h"

namespace cd::simulation {

using nlohmann::json;

namespace {

constexpr char kNamespace[] = "team";
constexpr std::size_t kMaxComputeDomains = 3;
constexpr std::size_t kMaxPods = 6;
constexpr char kPodFinalizer[] = "simulation/kubelet";

std::string UidOf(const json& object) {
  return object["metadata"].value("uid", "");
}

bool Deleting(const json& object) {
  return object["metadata"].contains("deletionTimestamp");
}

json PodObject(const std::string& name, const std::string& node) {
  return {{"metadata", {{"name", name}, {"finalizers", {kPodFinalizer}}}}, {"spec", {{"nodeName", node}}}};
}

json Reservation(const api::ObjectRef& pod) {
  return {{"resource", "pods"}, {"name", pod.name}, {"uid", pod.uid}};
}

// How many slots of a node a claim asks for.
std::string SlotsOf(const json& claim_spec) {
  return claim_spec.value("/devices/requests/0/exactly/capacity/requests/slots"_json_pointer, "1");
}

// As the scheduler leaves a claim: allocated on the node, reserved for the pod.
json Allocation(const std::string& node, const json& claim_spec) {
  json allocated = claim_spec["devices"]["config"][0];
  allocated["source"] = "FromClaim";
  const json result{{"request", "channel"},
                    {"driver", api::kDriverName},
                    {"pool", node},
                    {"device", "channel-0"},
                    {"consumedCapacity", {{"slots", SlotsOf(claim_spec)}}}};
  return {{"devices", {{"results", json::array({result})}, {"config", json::array({allocated})}}}};
}

std::string DomainOf(const json& claim) {
  return claim.at("/spec/devices/config/0/opaque/parameters/domainID"_json_pointer);
}

}  // namespace

void Simulation::SetUp() {
  Dice& dice = context_.dice;
  const std::size_t cliques = 1 + dice.Below(2);
  for (std::size_t i = 0; i < cliques; ++i) cliques_.push_back("0f3a1c4e-0000-4000-8000-00000000c11c." + std::to_string(i + 1));
  const std::size_t nodes = 2 + dice.Below(3);
  wrap_ = 1 + static_cast<int>(dice.Below(4));
  const unsigned kShares[] = {0, 300, 700};
  exclusive_ = kShares[dice.Below(3)];
  careless_ = exclusive_ > 0 && dice.PerMille(150);
  // Sometimes fewer slots than nodes.
  node_slots_ = static_cast<int>(std::max<std::size_t>(1, nodes + dice.Below(3) - 1));
  context_.server.cache_lag = [this](std::size_t available) {
    return calm_ ? 0 : context_.dice.Below(std::min<std::size_t>(available, 10) + 1);
  };
  context_.server.admit = [this](const std::string& plural, json& object, bool created) {
    if (plural != api::kImexDomains.plural) return;
    json& spec = object["spec"];
    // What takes 2,047 grants and 24 nodes in a cluster happens after a few here.
    if (created) spec["nodeSlots"] = node_slots_;
    spec["nextChannel"] = (spec.value("nextChannel", 1) - 1) % wrap_ + 1;
  };
  context_.connected = [this](const std::string& name) { return ConnectedWith(name); };
  context_.server.on_change = [this](const std::string& plural, const HistoryEvent& event) {
    if (plural == api::kResourceClaims.plural) CountGangs();
    if (plural == api::kImexNodes.plural)
      CheckAssignment(event.key, event.type == std::string_view("DELETED") ? nullptr : event.object);
    if (plural != api::kImexDomains.plural) return;
    if (event.type == std::string_view("DELETED")) return;
    CheckDomainObject(*event.object);
    if (!event.object->contains("/metadata/annotations"_json_pointer / api::kUnmadeAnnotation))
      lost_domains_.erase(event.key.name);
  };
  for (std::size_t i = 0; i < nodes; ++i) {
    const std::string name = "node-" + std::to_string(i + 1);
    (void)context_.server.Handle(kube::Create(api::kNodes, "", {{"metadata", {{"name", name}}}}));
    const std::string clique = dice.PerMille(150) ? "" : cliques_[dice.Below(cliques)];
    nodes_.push_back(std::make_unique<Node>(context_, name, clique));
    nodes_.back()->StartPlugin();
    nodes_.back()->StartDaemon();
  }
  controllers_.push_back(std::make_unique<ControllerProcess>(context_));
}

void Simulation::AddUserActions() {
  user_actions_ = {
      {"create ComputeDomain", 6, [this] { return CreateComputeDomain(); }},
      {"delete ComputeDomain", 4, [this] { return DeleteComputeDomain(); }},
      {"create pod", 12, [this] { return CreatePod(); }},
      {"create pod on a shared claim", 2, [this] { return CreatePodOnSharedClaim(); }},
      {"delete pod", 6, [this] { return DeletePod(false); }},
      {"force-delete pod", 3, [this] { return DeletePod(true); }},
      {"container ends by itself", 1,
       [this] {
         Node& node = AnyNode();
         if (node.containers().empty()) return false;
         node.EndSomeContainer();
         return true;
       }},
  };
}

// Without minNodes nothing tells how many pods will come: these pods have no owners.
json Simulation::DrawGating() {
  Dice& dice = context_.dice;
  json gating{{"settleSeconds", dice.Below(6)}, {"timeoutSeconds", 86'400}, {"onTimeout", "Fail"}};
  const bool counted = dice.PerMille(850);
  if (counted) gating["minNodes"] = 1 + dice.Below(std::min<std::size_t>(3, nodes_.size()));
  if (!counted || dice.PerMille(200)) {
    gating["onTimeout"] = "Release";
    gating["timeoutSeconds"] = 5 + dice.Below(60);
  }
  return gating;
}

std::vector<int> Simulation::ConnectedWith(const std::string& name) const {
  const auto ready = [](const Node& node) { return node.powered() && node.daemon().running && node.daemon().ready; };
  const auto self = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& n) { return n->Name() == name; });
  std::vector<int> out;
  if (self == nodes_.end() || !ready(**self)) return out;
  for (const auto& node : nodes_) {
    const bool peer = node != *self && ready(*node) && node->daemon().domain.name == (*self)->daemon().domain.name;
    if (peer) out.push_back(node->daemon().domain.index);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// By the truth of the API server, for the rule that nobody is let go before the gang has formed.
void Simulation::CountGangs() {
  if (context_.gates.empty()) return;
  std::map<std::string, std::set<std::string>> nodes;
  for (const auto& [key, claim] : context_.server.Objects(api::kResourceClaims)) {
    const auto reserved = claim->value("/status/reservedFor"_json_pointer, json::array());
    const std::string node = claim->value("/status/allocation/devices/results/0/pool"_json_pointer, "");
    if (!reserved.empty() && !node.empty() && !Deleting(*claim)) nodes[DomainOf(*claim)].insert(node);
  }
  for (auto& [uid, gate] : context_.gates) {
    gate.most_nodes = nodes[uid].empty() ? 0 : std::max(gate.most_nodes, nodes[uid].size());
    gate.started = gate.started && !nodes[uid].empty();
  }
}

// Whether the node's slots are enough for one more claim.
bool Simulation::Fits(const json& claim_spec, const Node& node) const {
  if (careless_) return true;
  int free = api::kDefaultSlots;
  for (const auto& [key, claim] : context_.server.Objects(api::kResourceClaims)) {
    if (claim->value("/status/allocation/devices/results/0/pool"_json_pointer, "") == node.Name())
      free -= std::stoi(SlotsOf(claim->at("spec")));
  }
  return std::stoi(SlotsOf(claim_spec)) <= free;
}

// Somebody has to wait: a process of another ComputeDomain runs on there past its pod, or a careless allocator put claims
// together on one node of which one wants it alone.
bool Simulation::InConflict(const Workload& workload) {
  std::set<std::string> owners;
  bool exclusive = false;
  const auto add = [&](const std::string& uid) {
    owners.insert(uid);
    exclusive = exclusive || kinds_[uid].exclusive;
  };
  for (const auto& node : nodes_) {
    if (node->Name() != workload.node) continue;
    for (const auto& [pid, container] : node->containers()) add(container.compute_domain_uid);
  }
  for (const Workload& other : workloads_) {
    const ObjectPtr claim = context_.server.Find(api::kResourceClaims, {other.claim.ns, other.claim.name});
    if (claim != nullptr && other.node == workload.node) add(DomainOf(*claim));
  }
  return exclusive && owners.size() > 1;
}

bool Simulation::CreateComputeDomain() {
  if (context_.server.Objects(api::kComputeDomains).size() >= kMaxComputeDomains) return false;
  const std::string name = "cd-" + std::to_string(names_++);
  Kind kind;
  kind.exclusive = exclusive_ > 0 && context_.dice.PerMille(exclusive_);
  kind.all = kind.exclusive && context_.dice.PerMille(500);
  json object{
      {"metadata", {{"name", name}}},
      {"spec",
       {{"channel", {{"resourceClaimTemplate", {{"name", name + "-channel"}}}, {"allocationMode", kind.all ? "All" : "Single"}}},
        {"isolationMode", kind.exclusive ? "Domain" : "Channel"}}}};
  const bool optional = context_.dice.PerMille(400);
  if (optional) object["spec"]["fabricPolicy"] = "Optional";
  if (context_.dice.PerMille(options_.gated)) object["spec"]["gating"] = DrawGating();
  const bool single = context_.dice.PerMille(300);
  if (single) object["spec"]["partitionPolicy"] = "Single";
  const auto created = context_.server.Handle(kube::Create(api::kComputeDomains, kNamespace, object));
  if (created && object["spec"].contains("gating")) {
    const json& gating = object["spec"]["gating"];
    context_.gates[UidOf(*created)] = {gating.value("minNodes", 0), gating["onTimeout"] == "Fail"};
  }
  if (created && single) context_.single.insert(UidOf(*created));
  if (created && optional) context_.optional.insert(UidOf(*created));
  if (created) kinds_[UidOf(*created)] = kind;
  context_.trace.Add("user", std::string("creates ComputeDomain ") + (kind.exclusive ? "with isolation Domain" : ""),
                     name + " " + (created ? UidOf(*created) : ""));
  return true;
}

bool Simulation::DeleteComputeDomain() {
  const auto& objects = context_.server.Objects(api::kComputeDomains);
  if (objects.empty()) return false;
  auto it = objects.begin();
  std::advance(it, context_.dice.Below(objects.size()));
  const api::ObjectKey key = it->first;
  const std::string uid = UidOf(*it->second);
  context_.trace.Add("user", "deletes ComputeDomain", key.name);
  (void)context_.server.Handle(kube::Delete(api::kComputeDomains, key));
  // Its pods go before it, with it, or stay for a while.
  if (context_.dice.PerMille(700)) {
    const bool force = context_.dice.PerMille(300);
    for (const Workload& workload : std::vector<Workload>(workloads_)) {
      const ObjectPtr claim = context_.server.Find(api::kResourceClaims, {workload.claim.ns, workload.claim.name});
      if (claim == nullptr || DomainOf(*claim) != uid) continue;
      const api::ObjectKey pod{workload.pod.ns, workload.pod.name};
      if (force) {
        context_.server.Erase(api::kPods, pod);
      } else {
        (void)context_.server.Handle(kube::Delete(api::kPods, pod));
      }
    }
  }
  return true;
}

// Who is without fabric offers a device that only ComputeDomains with fabricPolicy Optional select.
bool Simulation::Takes(const Node& node, const std::string& compute_domain_uid) const {
  return !node.clique().empty() || context_.optional.contains(compute_domain_uid);
}

// The claim is made from the template as it stands: that is what names the ComputeDomain.
bool Simulation::CreatePod() {
  if (workloads_.size() >= kMaxPods) return false;
  const auto& templates = context_.server.Objects(api::kResourceClaimTemplates);
  if (templates.empty()) return false;
  auto it = templates.begin();
  std::advance(it, context_.dice.Below(templates.size()));
  Node& node = AnyNode();
  if (deleted_nodes_.contains(node.Name())) return false;
  if (!Takes(node, it->second->at("/metadata/ownerReferences/0/uid"_json_pointer))) return false;
  const json claim_spec = it->second->at("/spec/spec"_json_pointer);
  if (!Fits(claim_spec, node)) return false;
  const std::string name = "pod-" + std::to_string(names_++);
  const json pod = *context_.server.Handle(kube::Create(api::kPods, kNamespace, PodObject(name, node.Name())));
  const json claim = *context_.server.Handle(
      kube::Create(api::kResourceClaims, kNamespace, {{"metadata", {{"name", name + "-channel"}}}, {"spec", claim_spec}}));
  Workload workload{{kNamespace, name, UidOf(pod)}, {kNamespace, name + "-channel", UidOf(claim)}, node.Name(), false};
  const json status{{"allocation", Allocation(node.Name(), claim_spec)},
                    {"reservedFor", json::array({Reservation(workload.pod)})}};
  (void)context_.server.Handle(
      kube::MergePatch(api::kResourceClaims, {kNamespace, workload.claim.name}, {{"status", status}}, "status"));
  context_.trace.Add("scheduler", "binds " + name + " to " + node.Name(), UidOf(claim) + " of " + DomainOf(claim));
  node.Bind(workload.pod, workload.claim, DomainOf(claim));
  workloads_.push_back(std::move(workload));
  return true;
}

// A second pod on the node of the first; where the first is gone the claim may be allocated anew, and elsewhere.
bool Simulation::CreatePodOnSharedClaim() {
  if (workloads_.size() >= kMaxPods || workloads_.empty()) return false;
  Workload& first = context_.dice.Pick(workloads_);
  const api::ObjectKey key{first.claim.ns, first.claim.name};
  const ObjectPtr claim = context_.server.Find(api::kResourceClaims, key);
  if (claim == nullptr || UidOf(*claim) != first.claim.uid || Deleting(*claim)) return false;
  json reserved = claim->value("/status/reservedFor"_json_pointer, json::array());
  Node* node = nullptr;
  json status;
  if (reserved.empty()) {
    node = &AnyNode();
    if (!Fits(claim->at("spec"), *node) || !Takes(*node, DomainOf(*claim))) return false;
    status["allocation"] = Allocation(node->Name(), claim->at("spec"));
  } else {
    for (const auto& n : nodes_) {
      if (n->Name() == first.node) node = n.get();
    }
  }
  if (node == nullptr || deleted_nodes_.contains(node->Name())) return false;
  first.shared = true;
  const std::string name = "pod-" + std::to_string(names_++);
  const json pod = *context_.server.Handle(kube::Create(api::kPods, kNamespace, PodObject(name, node->Name())));
  Workload second{{kNamespace, name, UidOf(pod)}, first.claim, node->Name(), true};
  reserved.push_back(Reservation(second.pod));
  status["reservedFor"] = reserved;
  (void)context_.server.Handle(kube::MergePatch(api::kResourceClaims, key, {{"status", status}}, "status"));
  context_.trace.Add("scheduler", "binds " + name + " to " + node->Name(), "shared " + second.claim.uid);
  node->Bind(second.pod, second.claim, DomainOf(*claim));
  workloads_.push_back(std::move(second));
  return true;
}

bool Simulation::DeletePod(bool force) {
  if (workloads_.empty()) return false;
  const Workload& workload = context_.dice.Pick(workloads_);
  const api::ObjectKey key{workload.pod.ns, workload.pod.name};
  const ObjectPtr pod = context_.server.Find(api::kPods, key);
  if (pod == nullptr || (!force && Deleting(*pod))) return false;
  context_.trace.Add("user", force ? "force-deletes" : "deletes", workload.pod.name);
  if (force) {
    context_.server.Erase(api::kPods, key);
  } else {
    (void)context_.server.Handle(kube::Delete(api::kPods, key));
  }
  return true;
}

// The claim controller: a reservation goes with its pod, the allocation with the last reservation, a generated claim with its
// pod.
bool Simulation::CleanUpClaims() {
  for (std::size_t i = 0; i < workloads_.size(); ++i) {
    const Workload workload = workloads_[i];
    if (context_.server.Find(api::kPods, {workload.pod.ns, workload.pod.name}) != nullptr) continue;
    workloads_.erase(workloads_.begin() + static_cast<std::ptrdiff_t>(i));
    const api::ObjectKey key{workload.claim.ns, workload.claim.name};
    const ObjectPtr claim = context_.server.Find(api::kResourceClaims, key);
    if (claim == nullptr || UidOf(*claim) != workload.claim.uid) return true;
    json reserved = claim->value("/status/reservedFor"_json_pointer, json::array());
    std::erase_if(reserved.get_ref<json::array_t&>(), [&](const json& entry) { return entry["uid"] == workload.pod.uid; });
    json status{{"reservedFor", reserved}};
    if (reserved.empty()) status = nullptr;
    context_.trace.Add("claims", "reservation ends", workload.claim.name);
    (void)context_.server.Handle(kube::MergePatch(api::kResourceClaims, key, {{"status", status}}, "status"));
    const bool used = std::any_of(workloads_.begin(), workloads_.end(),
                                  [&](const Workload& other) { return other.claim.uid == workload.claim.uid; });
    // A claim made by hand lives on for the next pod, sometimes.
    if (!used && workload.shared && !calm_ && context_.dice.PerMille(500)) {
      Later(Duration(1'000), Duration(120'000), [this, key, uid = workload.claim.uid] {
        const ObjectPtr left = context_.server.Find(api::kResourceClaims, key);
        const auto taken = [&](const Workload& other) { return other.claim.uid == uid; };
        if (left != nullptr && std::none_of(workloads_.begin(), workloads_.end(), taken))
          context_.server.Erase(api::kResourceClaims, key);
      });
    } else if (!used) {
      context_.server.Erase(api::kResourceClaims, key);
    }
    return true;
  }
  return false;
}

// Templates of a ComputeDomain that is gone; its controller removes them, but must not be needed.
bool Simulation::CollectTemplates() {
  const auto& domains = context_.server.Objects(api::kComputeDomains);
  for (const auto& [key, object] : context_.server.Objects(api::kResourceClaimTemplates)) {
    const std::string owner = object->value("/metadata/ownerReferences/0/uid"_json_pointer, "");
    const bool lives =
        std::any_of(domains.begin(), domains.end(), [&](const auto& item) { return UidOf(*item.second) == owner; });
    if (lives) continue;
    context_.trace.Add("gc", "removes template without owner", key.name);
    context_.server.Erase(api::kResourceClaimTemplates, api::ObjectKey(key));
    return true;
  }
  return false;
}

// Pods of absent Nodes, and IMEXNodes whose owner is gone.
bool Simulation::CollectGarbage() {
  if (context_.clock.Now() >= next_template_collection_) {
    next_template_collection_ = context_.clock.Now() + Duration(30'000);
    if (CollectTemplates()) return true;
  }
  for (const Workload& workload : workloads_) {
    const api::ObjectKey key{workload.pod.ns, workload.pod.name};
    if (!deleted_nodes_.contains(workload.node) || context_.server.Find(api::kPods, key) == nullptr) continue;
    context_.trace.Add("gc", "removes pod of absent Node", key.name);
    context_.server.Erase(api::kPods, key);
    return true;
  }
  for (const auto& [key, object] : context_.server.Objects(api::kImexNodes)) {
    const ObjectPtr owner = context_.server.Find(api::kNodes, key);
    const std::string owner_uid = object->value("/metadata/ownerReferences/0/uid"_json_pointer, "");
    if (owner_uid.empty() || (owner != nullptr && UidOf(*owner) == owner_uid)) continue;
    if (context_.clock.Now() < next_collection_ || RebuildPending()) return false;
    next_collection_ = context_.clock.Now() + context_.dice.Between(Duration(100), Duration(5'000));
    context_.trace.Add("gc", "removes IMEXNode without owner", key.name);
    context_.server.Erase(api::kImexNodes, api::ObjectKey(key));
    return true;
  }
  return false;
}

bool Simulation::WorldHasWork() {
  if (context_.clock.Now() >= next_template_collection_) return true;
  for (const Workload& workload : workloads_) {
    const bool gone = context_.server.Find(api::kPods, {workload.pod.ns, workload.pod.name}) == nullptr;
    if (gone || deleted_nodes_.contains(workload.node)) return true;
  }
  for (const auto& [key, object] : context_.server.Objects(api::kImexNodes)) {
    const ObjectPtr owner = context_.server.Find(api::kNodes, key);
    const std::string owner_uid = object->value("/metadata/ownerReferences/0/uid"_json_pointer, "");
    const bool due = context_.clock.Now() >= next_collection_;
    if (due && !owner_uid.empty() && (owner == nullptr || UidOf(*owner) != owner_uid)) return true;
  }
  return false;
}

void Simulation::StepWorld() {
  if (context_.dice.PerMille(500)) {
    if (CleanUpClaims() || CollectGarbage()) return;
  } else if (CollectGarbage() || CleanUpClaims()) {
    return;
  }
}

}  // namespace cd::simulation
