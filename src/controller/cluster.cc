#include "src/controller/cluster.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/api/claim_template.h"
#include "src/base/json_text.h"

namespace cd::controller {

using api::ImexDomain;
using api::ImexNode;
using api::ObjectMeta;
using api::ObjectRef;
using kube::CallAndWait;
using nlohmann::json;

namespace {

// As the chart labels them.
constexpr char kDaemonPods[] = "app.kubernetes.io/name=computedomain-driver,app.kubernetes.io/component=daemon";

domain::Liveness LivenessOf(const ObjectMeta& meta, const std::string& uid) {
  if (meta.uid != uid) return domain::Liveness::kGone;
  return meta.deleting ? domain::Liveness::kDeleting : domain::Liveness::kLive;
}

Status IgnoreNotFound(const Result<json>& answer) {
  if (answer || answer.error().code == ErrorCode::kNotFound) return {};
  return Fail(answer.error());
}

// Feeds an answer back. One that cannot be decoded is no failure of the write: the watch will bring the object.
template <typename T, typename Decode>
Status Learn(World& world, const Result<json>& answer, Decode decode) {
  if (!answer) return Fail(answer.error());
  if (auto object = decode(*answer)) world.Put(std::make_shared<const T>(*std::move(object)), Source::kWrite);
  return {};
}

// The object a write was meant for is gone. The watch may never say so: one that came and went between a list and the watch after
// it is known from the answer to its creation alone.
template <typename T>
void ForgetIfGone(World& world, const T& object, const Result<json>& answer) {
  if (!answer && answer.error().code == ErrorCode::kNotFound) world.Remove(std::make_shared<const T>(object));
}

}  // namespace

Result<domain::Liveness> Cluster::ReadLiveness(const ObjectRef& compute_domain) {
  const auto answer = CallAndWait(client_, kube::Get(api::kComputeDomains, {compute_domain.ns, compute_domain.name}));
  if (!answer) {
    if (answer.error().code == ErrorCode::kNotFound) return domain::Liveness::kGone;
    return Fail(Annotate(answer.error(), "read ComputeDomain " + ToString(compute_domain)));
  }
  const auto meta = api::DecodeMeta(*answer);
  if (!meta) return Fail(meta.error());
  // What else it says is newer than the cache as well; a partition that was chosen meanwhile is not overlooked.
  if (auto cd = api::DecodeComputeDomain(*answer))
    world_.Put(std::make_shared<const api::ComputeDomain>(*std::move(cd)), Source::kWrite);
  return LivenessOf(*meta, compute_domain.uid);
}

Result<domain::Liveness> Cluster::LookUpLiveness(const LookUp& look_up) {
  const auto answer = CallAndWait(client_, kube::List(api::kComputeDomains, look_up.ns));
  if (!answer) return Fail(Annotate(answer.error(), "list ComputeDomains of namespace " + look_up.ns));
  for (const json& item : ArrayOf(*answer, "items")) {
    const auto meta = api::DecodeMeta(item);
    if (!meta || meta->uid != look_up.uid) continue;
    // The cache was behind, and whoever asks needs the name next.
    if (auto cd = api::DecodeComputeDomain(item)) {
      world_.Put(std::make_shared<const api::ComputeDomain>(*std::move(cd)), Source::kWrite);
    }
    return LivenessOf(*meta, look_up.uid);
  }
  return domain::Liveness::kGone;
}

Result<domain::Nodes> Cluster::ListNodes() {
  const auto answer = CallAndWait(client_, kube::List(api::kImexNodes));
  if (!answer) return Fail(Annotate(answer.error(), "list IMEXNodes"));
  domain::Nodes nodes;
  for (const json& item : ArrayOf(*answer, "items")) {
    auto node = api::DecodeImexNode(item);
    if (!node) return Fail(node.error());
    nodes.push_back(std::make_shared<const ImexNode>(*std::move(node)));
  }
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a->meta.name < b->meta.name; });
  return nodes;
}

Result<bool> Cluster::NodeExists(const std::string& name) {
  const auto answer = CallAndWait(client_, kube::Get(api::kNodes, {"", name}));
  if (answer) return true;
  if (answer.error().code == ErrorCode::kNotFound) return false;
  return Fail(Annotate(answer.error(), "read Node " + name));
}

Result<bool> Cluster::IsNewest(const std::string& imex_domain, const std::string& version) {
  const auto answer = CallAndWait(client_, kube::Get(api::kImexDomains, {"", imex_domain}));
  if (!answer) {
    if (answer.error().code == ErrorCode::kNotFound) return version.empty();
    return Fail(Annotate(answer.error(), "read IMEXDomain " + imex_domain));
  }
  const auto meta = api::DecodeMeta(*answer);
  if (!meta) return Fail(meta.error());
  return meta->resource_version == version;
}

Result<std::vector<ChannelClaim>> Cluster::ListClaims(const std::string& ns) {
  const auto answer = CallAndWait(client_, kube::List(api::kResourceClaims, ns));
  if (!answer) return Fail(Annotate(answer.error(), "list ResourceClaims of namespace " + ns));
  std::vector<ChannelClaim> claims;
  for (const json& item : ArrayOf(*answer, "items")) {
    if (auto claim = DecodeChannelClaim(item)) claims.push_back(*std::move(claim));
  }
  return claims;
}

Result<std::optional<ObjectMeta>> Cluster::ReadTemplate(const api::ObjectKey& key) {
  const auto answer = CallAndWait(client_, kube::Get(api::kResourceClaimTemplates, key));
  if (!answer) {
    if (answer.error().code == ErrorCode::kNotFound) return std::optional<ObjectMeta>();
    return Fail(Annotate(answer.error(), "read ResourceClaimTemplate " + ToString(key)));
  }
  auto meta = api::DecodeMeta(*answer);
  if (!meta) return Fail(meta.error());
  return std::optional<ObjectMeta>(*std::move(meta));
}

Status Cluster::Write(const ImexDomain& domain) {
  const json object = api::EncodeImexDomain(domain);
  const bool create = domain.meta.resource_version.empty();
  const auto answer =
      CallAndWait(client_, create ? kube::Create(api::kImexDomains, "", object) : kube::Update(api::kImexDomains, object));
  if (!create) ForgetIfGone(world_, domain, answer);
  return Learn<ImexDomain>(world_, answer, api::DecodeImexDomain);
}

Status Cluster::Remove(const ImexDomain& domain) {
  if (!domain.meta.deleting) {
    // Nobody may have entered since the list that found it empty: hence the version.
    const auto deleted =
        CallAndWait(client_, kube::Delete(api::kImexDomains, domain.meta.Key(), domain.meta.uid, domain.meta.resource_version));
    if (auto ok = IgnoreNotFound(deleted); !ok) return ok;
  }
  if (!domain.meta.HasFinalizer(api::kFinalizer)) return {};
  return RemoveFinalizer(domain.meta, api::kImexDomains);
}

Status Cluster::WriteNodeSpec(const ImexNode& node, const NodeDecision& decision, bool moves) {
  ImexNode wanted = node;
  wanted.domain = decision.domain;
  wanted.refusals = decision.refusals;
  wanted.exemptions = decision.exemptions;
  wanted.maintenance = decision.maintenance;
  const json encoded = api::EncodeImexNode(wanted);
  json patch = {{"metadata", {{"uid", node.meta.uid}}},
                {"spec",
                 {{"refusals", encoded["spec"].value("refusals", json(nullptr))},
                  {"exemptions", encoded["spec"].value("exemptions", json(nullptr))}}}};
  // The plugin writes status all the time, so a version is demanded only where a stale view would do harm: it would take an
  // assignment, or a maintenance, back that another leader has given since.
  const bool maintains = decision.maintenance != node.maintenance;
  if (moves || maintains) patch["metadata"]["resourceVersion"] = node.meta.resource_version;
  if (moves) patch["spec"]["domain"] = encoded["spec"].value("domain", json(nullptr));
  if (maintains) patch["spec"]["maintenance"] = encoded["spec"].value("maintenance", json(nullptr));
  const auto answer = CallAndWait(client_, kube::MergePatch(api::kImexNodes, node.meta.Key(), patch));
  ForgetIfGone(world_, node, answer);
  return Learn<ImexNode>(world_, answer, api::DecodeImexNode);
}

Result<bool> Cluster::DeleteDaemonPod(const std::string& ns, const std::string& node, const std::string& uid) {
  const auto answer = CallAndWait(
      client_, kube::List(api::kPods, ns, {{"labelSelector", kDaemonPods}, {"fieldSelector", "spec.nodeName=" + node}}));
  if (!answer) return Fail(Annotate(answer.error(), "list the pods of the IMEX daemon"));
  for (const json& item : ArrayOf(*answer, "items")) {
    const auto meta = api::DecodeMeta(item);
    if (!meta) return Fail(meta.error());
    if (meta->uid != uid || meta->deleting) continue;
    if (auto ok = IgnoreNotFound(CallAndWait(client_, kube::Delete(api::kPods, meta->Key(), uid))); !ok)
      return Fail(Annotate(ok.error(), "delete pod " + ToString(meta->Key())));
    return true;
  }
  return false;
}

Status Cluster::AddFinalizer(const api::ComputeDomain& cd) {
  // The version: `add` would replace a list that somebody else began meanwhile, and a repeated one would add twice.
  json patch = json::array({{{"op", "test"}, {"path", "/metadata/uid"}, {"value", cd.meta.uid}},
                            {{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", cd.meta.resource_version}}});
  if (cd.meta.finalizers.empty()) {
    patch.push_back({{"op", "add"}, {"path", "/metadata/finalizers"}, {"value", {api::kFinalizer}}});
  } else {
    patch.push_back({{"op", "add"}, {"path", "/metadata/finalizers/-"}, {"value", api::kFinalizer}});
  }
  const auto answer = CallAndWait(client_, kube::JsonPatch(api::kComputeDomains, cd.meta.Key(), patch));
  ForgetIfGone(world_, cd, answer);
  return Learn<api::ComputeDomain>(world_, answer, api::DecodeComputeDomain);
}

Status Cluster::RemoveFinalizer(const ObjectMeta& meta, const api::ResourceType& type) {
  const auto it = std::find(meta.finalizers.begin(), meta.finalizers.end(), api::kFinalizer);
  const std::string path = "/metadata/finalizers/" + std::to_string(it - meta.finalizers.begin());
  const json patch = json::array({{{"op", "test"}, {"path", "/metadata/uid"}, {"value", meta.uid}},
                                  {{"op", "test"}, {"path", path}, {"value", api::kFinalizer}},
                                  {{"op", "remove"}, {"path", path}}});
  return IgnoreNotFound(CallAndWait(client_, kube::JsonPatch(type, meta.Key(), patch)));
}

Status Cluster::CreateTemplate(const api::ComputeDomain& cd, const api::NodeDevices& devices) {
  const json wanted = api::EncodeClaimTemplate(cd, devices);
  const auto answer = CallAndWait(client_, kube::Create(api::kResourceClaimTemplates, cd.meta.ns, wanted));
  if (answer && !api::DroppedCapacity(wanted) && api::DroppedCapacity(*answer)) {
    const auto made = api::DecodeMeta(*answer);
    if (!made) return Fail(made.error());
    if (auto ok = DeleteTemplate(made->Key(), made->uid); !ok) return ok;
    return Fail(ErrorCode::kFailedPrecondition, "the API server does not know devices that claims share");
  }
  return Learn<ClaimTemplate>(world_, answer, DecodeClaimTemplate);
}

Status Cluster::DeleteTemplate(const api::ObjectKey& key, const std::string& uid) {
  return IgnoreNotFound(CallAndWait(client_, kube::Delete(api::kResourceClaimTemplates, key, uid)));
}

Status Cluster::WriteStatus(const api::ComputeDomain& cd, const api::ComputeDomainStatus& status) {
  // The server compares the version here, but no UID: another ComputeDomain of that name would get this one's status.
  const json patch = {{"metadata", {{"resourceVersion", cd.meta.resource_version}}},
                      {"status", api::EncodeComputeDomainStatus(status)}};
  const auto answer = CallAndWait(client_, kube::MergePatch(api::kComputeDomains, cd.meta.Key(), patch, "status"));
  ForgetIfGone(world_, cd, answer);
  if (!answer && answer.error().code == ErrorCode::kNotFound) return {};
  return Learn<api::ComputeDomain>(world_, answer, api::DecodeComputeDomain);
}

Status Cluster::Wake(const ObjectRef& pod, const std::string& now) {
  const json patch = {{"metadata", {{"uid", pod.uid}, {"annotations", {{api::kWakeAnnotation, now}}}}}};
  const auto answer = CallAndWait(client_, kube::MergePatch(api::kPods, {pod.ns, pod.name}, patch));
  // Another UID cannot be set: that is another pod under the name of one that is gone.
  const auto another = [](ErrorCode code) { return code == ErrorCode::kConflict || code == ErrorCode::kInvalidArgument; };
  if (!answer && another(answer.error().code)) return {};
  return IgnoreNotFound(answer);
}

}  // namespace cd::controller
