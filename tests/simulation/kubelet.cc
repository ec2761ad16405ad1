// The kubelet's half of a node.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/simulation/node.h"

namespace cd::simulation {

using nlohmann::json;
using Phase = PodWork::Phase;

namespace {

// What the kubelet gives a Prepare.
constexpr Duration kCallLimit{45'000};

// What the container runtime reads from a claim's CDI file.
std::optional<Container> ContainerOf(const DiskContent& disk, const std::string& claim_uid) {
  const auto file = disk.files.find("/cdi/compute-domain.nvidia.com-claim_" + claim_uid + ".json");
  if (file == disk.files.end()) return std::nullopt;
  const json edits = json::parse(file->second)["devices"][0]["containerEdits"];
  Container container;
  container.claim_uid = claim_uid;
  if (edits.contains("deviceNodes")) {
    container.channel = edits["deviceNodes"][0]["minor"];
    container.devices = static_cast<int>(edits["deviceNodes"].size());
  }
  for (const std::string variable : edits["env"]) {
    const std::size_t equals = variable.find('=');
    if (variable.starts_with("NVIDIA_COMPUTE_DOMAIN_UID=")) container.compute_domain_uid = variable.substr(equals + 1);
    if (variable.starts_with("NVIDIA_COMPUTE_DOMAIN_CLIQUE=")) container.domain = variable.substr(equals + 1);
  }
  if (const auto marker = disk.files.find("/plugin/claims/" + claim_uid + ".json"); marker != disk.files.end()) {
    const json grant = json::parse(marker->second).value("grant", json::object());
    container.domain = grant.value("domain", container.domain);
    container.channel = grant.value("channel", container.channel);
  }
  return container;
}

std::string WakeOf(const json& pod) {
  const auto annotations = pod["metadata"].find("annotations");
  return annotations == pod["metadata"].end() ? "" : annotations->value(api::kWakeAnnotation, "");
}

}  // namespace

void Node::Bind(const api::ObjectRef& pod, const api::ObjectRef& claim, const std::string& compute_domain_uid) {
  PodWork work;
  work.pod = pod;
  work.claim = claim;
  work.compute_domain_uid = compute_domain_uid;
  work.due = context_.clock.Now();
  pods_[pod.uid] = work;
}

bool Node::Observable(const PodWork& work) const {
  if (context_.network.outage || work.gone) return false;
  const ObjectPtr pod = context_.server.Find(api::kPods, {work.pod.ns, work.pod.name});
  const bool gone = pod == nullptr || pod->at("metadata").value("uid", "") != work.pod.uid;
  if (gone) return true;
  return pod->at("metadata").contains("deletionTimestamp") != work.deleting || WakeOf(*pod) != work.wake;
}

void Node::Observe(PodWork& work) {
  const ObjectPtr pod = context_.server.Find(api::kPods, {work.pod.ns, work.pod.name});
  if (pod == nullptr || pod->at("metadata").value("uid", "") != work.pod.uid) {
    work.gone = true;
    work.forced = work.forced || !work.deleting || work.phase == Phase::kEnding;
    work.deleting = true;
    context_.trace.Add(name_, "kubelet sees that the pod is gone", work.pod.name);
    if (work.phase == Phase::kEnding) work.due = context_.clock.Now() + context_.dice.Between(Duration(0), Duration(60'000));
    return;
  }
  work.deleting = pod->at("metadata").contains("deletionTimestamp");
  const std::string wake = WakeOf(*pod);
  if (wake != work.wake && work.phase == Phase::kWaiting) work.due = context_.clock.Now();
  work.wake = wake;
  if (context_.trace.on())
    context_.trace.Add(name_, work.deleting ? "kubelet sees deletion" : "kubelet sees change", work.pod.name);
}

bool Node::Actionable(const PodWork& work) const {
  const SteadyTime now = context_.clock.Now();
  switch (work.phase) {
    case Phase::kWaiting:
      return work.deleting || work.due <= now;
    case Phase::kPrepared:
      return work.due <= now;
    case Phase::kRunning:
      return work.deleting || (!containers_.contains(work.pid) && work.due <= now);
    case Phase::kEnding:
      return !containers_.contains(work.pid) || (work.forced && work.due <= now);
    case Phase::kUnpreparing:
      return work.due <= now;
    case Phase::kPreparing:
    case Phase::kCalled:
      return false;
  }
  return false;
}

std::size_t Node::KubeletWork() {
  if (!powered_) return 0;
  std::size_t count = 0;
  for (const auto& [uid, work] : pods_) count += Actionable(work) || Observable(work);
  return count;
}

void Node::StepKubelet() {
  std::vector<PodWork*> ready;
  for (auto& [uid, work] : pods_) {
    if (Actionable(work) || Observable(work)) ready.push_back(&work);
  }
  PodWork& work = *context_.dice.Pick(ready);
  const bool act = Actionable(work);
  if (Observable(work) && (!act || context_.dice.PerMille(500))) return Observe(work);
  Act(work);
}

void Node::Act(PodWork& work) {
  switch (work.phase) {
    case Phase::kWaiting:
      if (!work.deleting) return CallPrepare(work);
      work.phase = Phase::kUnpreparing;
      work.due = context_.clock.Now();
      return;
    case Phase::kPrepared:
      return StartContainer(work);
    case Phase::kRunning:
      return work.deleting ? BeginToEnd(work) : StartContainer(work);
    case Phase::kEnding:
      work.phase = Phase::kUnpreparing;
      work.due = context_.clock.Now();
      return;
    case Phase::kUnpreparing:
      return CallUnprepare(work);
    case Phase::kPreparing:
    case Phase::kCalled:
      return;
  }
}

PluginProcess* Node::PickPlugin() {
  std::vector<PluginProcess*> ready;
  for (const auto& plugin : plugins_) {
    if (plugin->registered() && !plugin->dead()) ready.push_back(plugin.get());
  }
  return ready.empty() ? nullptr : context_.dice.Pick(ready);
}

void Node::CallPrepare(PodWork& work) {
  PluginProcess* const plugin = PickPlugin();
  if (plugin == nullptr) {
    work.due = context_.clock.Now() + context_.dice.Between(Duration(60'000), Duration(90'000));
    return;
  }
  work.phase = Phase::kPreparing;
  work.call = context_.next_call++;
  unprepared_.erase(work.claim.uid);
  unpreparing_.erase(work.claim.uid);
  context_.trace.Add(name_, "kubelet calls Prepare of " + plugin->name(), work.pod.name + " " + work.claim.uid);
  const auto uid = work.pod.uid;
  const auto call = work.call;
  plugin->Prepare(call, work.claim, [this, uid, call](const plugin::PrepareResult& result) { Prepared(uid, call, result); });
  context_.environment.PostAfter(kCallLimit, [this, uid, call] {
    const auto it = pods_.find(uid);
    if (it == pods_.end() || it->second.call != call || it->second.phase != Phase::kPreparing) return;
    for (const auto& p : plugins_) {
      if (p->registered()) p->Cancel(call);
    }
    Prepared(uid, call, Fail(ErrorCode::kDeadlineExceeded, "45 s"));
  });
}

void Node::Prepared(const std::string& pod_uid, plugin::CallId call, const plugin::PrepareResult& result) {
  const auto it = pods_.find(pod_uid);
  if (it == pods_.end() || it->second.call != call || it->second.phase != Phase::kPreparing) return;
  PodWork& work = it->second;
  work.call = 0;
  if (context_.trace.on()) {
    context_.trace.Add(name_, result ? "claim is prepared" : "claim is not prepared",
                       work.pod.name + " " + work.claim.uid + (result ? "" : ": " + result.error().message));
  }
  work.phase = result ? Phase::kPrepared : Phase::kWaiting;
  work.due = context_.clock.Now();
  if (!result) work.due += context_.dice.Between(Duration(60'000), Duration(90'000));
}

// R2 of fabricPolicy: without a channel run pods of Optional ComputeDomains on machines that never had a fabric, and nobody else.
void Node::CheckFallBack(const PodWork& work, const Container& container) {
  if (container.channel != 0) return;
  if (fabric_ != api::FabricState::kNone)
    context_.Violate("fallback", work.pod.name + " runs without a channel on " + name_ + ", which has a fabric");
  if (!context_.optional.contains(work.compute_domain_uid))
    context_.Violate("fallback", work.pod.name + " runs without a channel, which its ComputeDomain does not allow");
}

// Also for a pod that is being deleted: the sync under way runs to its end, and the container is killed after it began.
void Node::StartContainer(PodWork& work) {
  if (work.deleting && context_.dice.PerMille(300)) {
    work.phase = Phase::kUnpreparing;
    work.due = context_.clock.Now();
    return;
  }
  auto container = ContainerOf(*disk_, work.claim.uid);
  if (!container) {
    context_.trace.Add(name_, "no CDI file, no container", work.pod.name);
    work.due = context_.clock.Now() + context_.dice.Between(Duration(1'000), Duration(10'000));
    if (work.deleting) work.phase = Phase::kUnpreparing;
    return;
  }
  container->pod_uid = work.pod.uid;
  work.pid = static_cast<pid_t>(context_.next_pid++);
  if (context_.trace.on()) {
    context_.trace.Add(name_, "process " + std::to_string(work.pid) + " of " + work.pod.name + " starts",
                       "channel " + std::to_string(container->channel) + " of " + container->compute_domain_uid);
  }
  if (container->compute_domain_uid != work.compute_domain_uid) {
    context_.Violate("R2", "pod " + work.pod.name + " got a channel of another ComputeDomain");
  }
  CheckFallBack(work, *container);
  containers_[work.pid] = std::move(*container);
  context_.holders_changed = true;
  work.phase = Phase::kRunning;
}

void Node::BeginToEnd(PodWork& work) {
  work.phase = Phase::kEnding;
  if (!containers_.contains(work.pid)) return;
  Duration grace = context_.dice.Between(Duration(0), Duration(2'000));
  if (context_.dice.PerMille(200)) grace = context_.dice.Between(Duration(20'000), Duration(120'000));
  if (context_.dice.PerMille(100)) grace = Duration(3'600'000);
  if (work.forced) work.due = context_.clock.Now() + context_.dice.Between(Duration(0), Duration(60'000));
  context_.environment.PostAfter(grace, [this, pid = work.pid] { EndContainer(pid); });
}

void Node::EndContainer(pid_t pid) {
  if (containers_.erase(pid) == 0) return;
  context_.trace.Add(name_, "process " + std::to_string(pid) + " ends");
  context_.holders_changed = true;
  for (const auto& plugin : plugins_) plugin->ProcessEnded(pid);
}

void Node::EndSomeContainer() {
  if (containers_.empty()) return;
  auto it = containers_.begin();
  std::advance(it, context_.dice.Below(containers_.size()));
  EndContainer(it->first);
}

void Node::EndAllGraces() {
  std::vector<pid_t> ending;
  for (const auto& [pid, container] : containers_) {
    const auto work = pods_.find(container.pod_uid);
    if (work == pods_.end() || work->second.phase >= Phase::kEnding) ending.push_back(pid);
  }
  for (const pid_t pid : ending) EndContainer(pid);
}

// A claim two pods share is unprepared with the last one.
void Node::CallUnprepare(PodWork& work) {
  const bool shared = std::any_of(pods_.begin(), pods_.end(), [&](const auto& item) {
    return item.first != work.pod.uid && item.second.claim.uid == work.claim.uid && item.second.phase < Phase::kUnpreparing;
  });
  if (shared) return Finish(std::string(work.pod.uid));
  PluginProcess* const plugin = PickPlugin();
  if (plugin == nullptr) {
    work.due = context_.clock.Now() + context_.dice.Between(Duration(900), Duration(11'500));
    return;
  }
  work.phase = Phase::kCalled;
  work.call = context_.next_call++;
  unpreparing_.insert(work.claim.uid);
  context_.trace.Add(name_, "kubelet calls Unprepare of " + plugin->name(), work.pod.name + " " + work.claim.uid);
  plugin->Unprepare(work.claim,
                    [this, uid = work.pod.uid, call = work.call](const Status& result) { Unprepared(uid, call, result); });
}

void Node::Unprepared(const std::string& pod_uid, plugin::CallId call, const Status& result) {
  const auto it = pods_.find(pod_uid);
  if (it == pods_.end() || it->second.call != call || it->second.phase != Phase::kCalled) return;
  if (result) {
    context_.trace.Add(name_, "claim is unprepared", it->second.claim.uid);
    if (unpreparing_.erase(it->second.claim.uid) > 0) unprepared_.insert(it->second.claim.uid);
    return Finish(pod_uid);
  }
  it->second.phase = Phase::kUnpreparing;
  it->second.due = context_.clock.Now() + context_.dice.Between(Duration(900), Duration(11'500));
}

void Node::Finish(const std::string& pod_uid) {
  const PodWork work = pods_.at(pod_uid);
  pods_.erase(pod_uid);
  const api::ObjectKey key{work.pod.ns, work.pod.name};
  const ObjectPtr pod = context_.server.Find(api::kPods, key);
  if (pod != nullptr && pod->at("metadata").value("uid", "") == pod_uid) context_.server.Erase(api::kPods, key);
}

void Node::RestartKubelet() {
  context_.trace.Add(name_, "kubelet restarts");
  for (auto& [uid, work] : pods_) {
    if (work.phase == Phase::kPreparing) {
      for (const auto& plugin : plugins_) {
        if (plugin->registered()) plugin->Cancel(work.call);
      }
      work.phase = Phase::kWaiting;
      work.due = context_.clock.Now() + Duration(1'100);
    } else if (work.phase == Phase::kCalled) {
      work.phase = Phase::kUnpreparing;
      work.due = context_.clock.Now() + Duration(1'100);
    } else if (work.phase == Phase::kRunning && context_.dice.PerMille(200)) {
      // A new sandbox after the restart: prepared again, and the old container is gone.
      EndContainer(work.pid);
      work.phase = Phase::kWaiting;
      work.due = context_.clock.Now();
    }
  }
}

}  // namespace cd::simulation
