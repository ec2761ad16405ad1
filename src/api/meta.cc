#include "src/api/meta.h"

#include <algorithm>

#include "src/base/files.h"
#include "src/base/json_reader.h"

namespace cd::api {

using nlohmann::json;

const ResourceType kComputeDomains{kGroup, "v1beta2", "ComputeDomain", "computedomains", true};
const ResourceType kImexDomains{kGroup, "v1alpha1", "IMEXDomain", "imexdomains", false};
const ResourceType kImexNodes{kGroup, "v1alpha1", "IMEXNode", "imexnodes", false};
const ResourceType kResourceClaims{"resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true};
const ResourceType kResourceClaimTemplates{"resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", true};
const ResourceType kResourceSlices{"resource.k8s.io", "v1", "ResourceSlice", "resourceslices", false};
const ResourceType kNodes{"", "v1", "Node", "nodes", false};
const ResourceType kPods{"", "v1", "Pod", "pods", true};
const ResourceType kLeases{"coordination.k8s.io", "v1", "Lease", "leases", true};
const ResourceType kEvents{"events.k8s.io", "v1", "Event", "events", true};

std::string ToString(const ObjectKey& key) {
  return key.ns.empty() ? key.name : key.ns + "/" + key.name;
}
std::string ToString(const ObjectRef& ref) {
  return ToString(ObjectKey{ref.ns, ref.name});
}

bool ObjectMeta::HasFinalizer(const std::string& finalizer) const {
  return std::find(finalizers.begin(), finalizers.end(), finalizer) != finalizers.end();
}

namespace {

std::map<std::string, std::string> ReadStringMap(JsonReader parent, std::string_view name) {
  std::map<std::string, std::string> out;
  const json* object = parent.Find(name);
  if (object == nullptr) return out;
  JsonReader reader = parent.Child(name);
  if (!object->is_object()) return out;  // Child() has recorded the error
  for (const auto& [key, value] : object->items()) out[key] = reader.String(key);
  return out;
}

std::vector<OwnerReference> ReadOwners(JsonReader parent) {
  std::vector<OwnerReference> out;
  for (JsonReader& owner : parent.Children("ownerReferences")) {
    out.push_back({.api_version = owner.String("apiVersion"),
                   .kind = owner.String("kind"),
                   .name = owner.String("name"),
                   .uid = owner.String("uid"),
                   .controller = owner.Bool("controller")});
  }
  return out;
}

json EncodeOwners(const std::vector<OwnerReference>& owners) {
  json out = json::array();
  for (const OwnerReference& owner : owners) {
    json reference = {{"apiVersion", owner.api_version}, {"kind", owner.kind}, {"name", owner.name}, {"uid", owner.uid}};
    if (owner.controller) reference["controller"] = true;
    out.push_back(std::move(reference));
  }
  return out;
}

// Names and UIDs become parts of paths and of messages.
Status CheckNames(const ObjectMeta& meta) {
  if (meta.name.empty()) return Fail(ErrorCode::kInvalidArgument, "metadata.name: must be set");
  for (const auto& [field, value] :
       {std::pair{"name", &meta.name}, std::pair{"namespace", &meta.ns}, std::pair{"uid", &meta.uid}}) {
    if (value->empty() || IsSafePathComponent(*value)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                std::string("metadata.") + field + ": must be a Kubernetes name, not " + Quoted(*value));
  }
  return {};
}

}  // namespace

Result<ObjectMeta> DecodeMeta(const json& object) {
  std::optional<Error> error;
  JsonReader r = JsonReader(&object, "", error).Child("metadata");
  ObjectMeta meta;
  meta.ns = r.String("namespace");
  meta.name = r.String("name");
  meta.uid = r.String("uid");
  meta.resource_version = r.String("resourceVersion");
  meta.generation = r.Int64("generation");
  meta.creation_timestamp = r.String("creationTimestamp");
  meta.deleting = r.Has("deletionTimestamp");
  meta.labels = ReadStringMap(r, "labels");
  meta.annotations = ReadStringMap(r, "annotations");
  meta.finalizers = r.Strings("finalizers");
  meta.owners = ReadOwners(r);
  if (error) return Fail(*std::move(error));
  if (auto named = CheckNames(meta); !named) return Fail(named.error());
  return meta;
}

json EncodeMeta(const ObjectMeta& meta) {
  json out = {{"name", meta.name}};
  if (!meta.ns.empty()) out["namespace"] = meta.ns;
  if (!meta.uid.empty()) out["uid"] = meta.uid;
  if (!meta.resource_version.empty()) out["resourceVersion"] = meta.resource_version;
  if (!meta.labels.empty()) out["labels"] = meta.labels;
  if (!meta.annotations.empty()) out["annotations"] = meta.annotations;
  if (!meta.finalizers.empty()) out["finalizers"] = meta.finalizers;
  if (!meta.owners.empty()) out["ownerReferences"] = EncodeOwners(meta.owners);
  return out;
}

}  // namespace cd::api
