#include "src/controller/workload_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/base/json_reader.h"

namespace cd::controller {

using domain::Workload;
using nlohmann::json;

namespace {

constexpr Duration kFresh{2'000};

const api::ResourceType kJobs{"batch", "v1", "Job", "jobs", true};
const api::ResourceType kStatefulSets{"apps", "v1", "StatefulSet", "statefulsets", true};
const api::ResourceType kReplicaSets{"apps", "v1", "ReplicaSet", "replicasets", true};

const api::ResourceType* TypeOf(const api::OwnerReference& owner) {
  for (const api::ResourceType* type : {&kJobs, &kStatefulSets, &kReplicaSets}) {
    if (type->kind == owner.kind && type->ApiVersion() == owner.api_version) return type;
  }
  return nullptr;
}

api::OwnerReference ControllerOf(const api::ObjectMeta& meta) {
  const auto it = std::find_if(meta.owners.begin(), meta.owners.end(), [](const api::OwnerReference& o) { return o.controller; });
  return it == meta.owners.end() ? api::OwnerReference() : *it;
}

// What creates whole Jobs at their time, or replaces ReplicaSets, declares no more than they do.
bool SpeaksForItself(const std::string& kind, const std::string& owner_kind) {
  return owner_kind.empty() || (kind == "Job" && owner_kind == "CronJob") || (kind == "ReplicaSet" && owner_kind == "Deployment");
}

int PodsOfJob(JsonReader& spec, JsonReader& status) {
  if (spec.Bool("suspend")) return 0;
  const int parallelism = spec.Int("parallelism", 1);
  const auto completions = spec.OptionalInt("completions");
  return completions ? std::min(parallelism, std::max(0, *completions - status.Int("succeeded"))) : parallelism;
}

}  // namespace

Workload DescribeWorkload(const std::string& kind, const json& object) {
  Workload out;
  const auto meta = api::DecodeMeta(object);
  if (!meta) return out;
  out.name = kind + " " + meta->name;
  const api::OwnerReference above = ControllerOf(*meta);
  if (!SpeaksForItself(kind, above.kind)) {
    out.name = above.kind + " " + above.name;
    return out;
  }
  std::optional<Error> error;
  JsonReader root(&object, "", error);
  JsonReader spec = root.Child("spec");
  JsonReader status = root.Child("status");
  if (kind == "Job") {
    out.declared = PodsOfJob(spec, status);
  } else {
    out.declared = spec.Int("replicas", 1);
  }
  if (kind == "StatefulSet") out.creates_by_readiness = spec.String("podManagementPolicy") != "Parallel" && *out.declared > 1;
  return out;
}

Result<api::OwnerReference> WorkloadReader::OwnerOf(Gang& gang, const api::ObjectRef& pod) {
  const auto known = gang.owner_of_pod.find(pod.uid);
  if (known != gang.owner_of_pod.end()) return known->second;
  const auto answer = kube::CallAndWait(client_, kube::Get(api::kPods, {pod.ns, pod.name}));
  if (!answer) return Fail(Annotate(answer.error(), "read Pod " + pod.ns + "/" + pod.name));
  const auto meta = api::DecodeMeta(*answer);
  if (!meta) return Fail(meta.error());
  return gang.owner_of_pod[pod.uid] = ControllerOf(*meta);
}

Result<Workload> WorkloadReader::Describe(Gang& gang, const api::OwnerReference& owner, const std::string& ns) {
  Workload undeclared;
  undeclared.name = owner.kind + " " + owner.name;
  const api::ResourceType* type = TypeOf(owner);
  if (type == nullptr) return undeclared;
  const auto known = gang.owners.find(owner.uid);
  if (known != gang.owners.end() && clock_.Now() - known->second.read < kFresh) return known->second.workload;
  const auto answer = kube::CallAndWait(client_, kube::Get(*type, {ns, owner.name}));
  // Its pods are about to go as well.
  if (!answer && answer.error().code == ErrorCode::kNotFound) return undeclared;
  if (!answer) return Fail(Annotate(answer.error(), "read " + undeclared.name));
  Workload workload = DescribeWorkload(owner.kind, *answer);
  gang.owners[owner.uid] = {workload, clock_.Now()};
  return workload;
}

Result<std::vector<Workload>> WorkloadReader::Read(const std::string& compute_domain_uid,
                                                   const std::vector<api::ObjectRef>& pods) {
  Gang& gang = gangs_[compute_domain_uid];
  std::map<std::string, Workload> by_uid;
  std::set<std::string> present;
  for (const api::ObjectRef& pod : pods) {
    auto owner = OwnerOf(gang, pod);
    if (!owner) {
      if (owner.error().code == ErrorCode::kNotFound) continue;  // its claim is about to follow
      return Fail(owner.error());
    }
    present.insert(pod.uid);
    if (owner->kind.empty()) {
      by_uid[pod.uid].name = "Pod " + pod.name + ", which has no owner,";
      continue;
    }
    if (!by_uid.contains(owner->uid)) {
      auto workload = Describe(gang, *owner, pod.ns);
      if (!workload) return Fail(workload.error());
      by_uid[owner->uid] = *std::move(workload);
    }
    ++by_uid[owner->uid].present;
  }
  std::erase_if(gang.owner_of_pod, [&](const auto& entry) { return !present.contains(entry.first); });
  std::vector<Workload> out;
  for (auto& [uid, workload] : by_uid) out.push_back(std::move(workload));
  return out;
}

}  // namespace cd::controller
