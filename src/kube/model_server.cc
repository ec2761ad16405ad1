#include "src/kube/model_server.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace cd::kube {

using api::ObjectKey;
using nlohmann::json;

namespace {

// Types whose main endpoint neither reads nor writes status.
bool HasStatus(const std::string& plural) {
  return plural == "computedomains" || plural == "imexnodes" || plural == "resourceclaims" || plural == "pods" ||
         plural == "nodes";
}

// Custom resources take no update without a version.
bool NeedsVersion(const std::string& plural) {
  return plural == "computedomains" || plural == "imexnodes" || plural == "imexdomains";
}

std::string Text(const json& object, const char* name) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return "";
  const auto it = metadata->find(name);
  return it != metadata->end() && it->is_string() ? it->get<std::string>() : "";
}

bool HasFinalizers(const json& object) {
  const auto it = object["metadata"].find("finalizers");
  return it != object["metadata"].end() && it->is_array() && !it->empty();
}

auto NotFound(const ApiRequest& request) {
  return Fail(ErrorCode::kNotFound, request.type.plural + " \"" + request.key.name + "\" not found");
}

auto OldVersion(const ApiRequest& request) {
  return Fail(ErrorCode::kConflict, request.type.plural + " \"" + request.key.name +
                                        "\": the object has been modified; please apply your changes anew");
}

// What a writer may not decide.
void KeepServersFields(const json& present, json& wanted) {
  json& metadata = wanted["metadata"];
  for (const char* name :
       {"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion"}) {
    const auto it = present["metadata"].find(name);
    if (it != present["metadata"].end()) {
      metadata[name] = *it;
    } else {
      metadata.erase(name);
    }
  }
  wanted["apiVersion"] = present.value("apiVersion", "");
  wanted["kind"] = present.value("kind", "");
}

void DropNulls(json& value) {
  if (value.is_object()) {
    for (auto it = value.begin(); it != value.end();) {
      if (it->is_null()) {
        it = value.erase(it);
      } else {
        DropNulls(*it++);
      }
    }
  }
}

}  // namespace

Result<json> ModelServer::Handle(const ApiRequest& request) {
  Collection& collection = collections_[request.type.plural];
  if (request.verb == Verb::kList) return List(request, collection);
  if (request.verb == Verb::kCreate) return Create(request, collection);
  const auto found = collection.objects.find(request.key);
  if (found == collection.objects.end()) {
    // An apply that names a UID makes nothing; others do, but not here.
    const bool apply = request.verb == Verb::kPatch && request.patch_type == PatchType::kApply;
    return apply ? OldVersion(request) : NotFound(request);
  }
  const ObjectPtr present = found->second;
  switch (request.verb) {
    case Verb::kUpdate:
      return Replace(request, collection, *present);
    case Verb::kPatch:
      return Patch(request, collection, *present);
    case Verb::kDelete:
      return Delete(request, collection, present);
    default:
      return *present;
  }
}

Result<json> ModelServer::Create(const ApiRequest& request, Collection& collection) {
  json object = json::parse(request.body);
  if (!Text(object, "resourceVersion").empty()) {
    // Status 500, of all things.
    return Fail(ErrorCode::kUnavailable, "resourceVersion should not be set on objects to be created");
  }
  const ObjectKey key{request.type.namespaced ? request.key.ns : "", Text(object, "name")};
  if (key.name.empty()) return Fail(ErrorCode::kInvalidArgument, "metadata.name: required");
  if (collection.objects.contains(key)) {
    return Fail(ErrorCode::kAlreadyExists, request.type.plural + " \"" + key.name + "\" already exists");
  }
  json& metadata = object["metadata"];
  if (request.type.namespaced) metadata["namespace"] = key.ns;
  metadata["uid"] = NewUid();
  metadata["generation"] = 1;
  metadata["creationTimestamp"] = FormatTime(clock_.WallNow());
  metadata.erase("deletionTimestamp");
  if (HasStatus(request.type.plural)) object.erase("status");
  DropNulls(object);
  if (admit) admit(request.type.plural, object, true);
  return Store(request.type.plural, collection, key, std::move(object));
}

Result<json> ModelServer::Replace(const ApiRequest& request, Collection& collection, const json& present) {
  json wanted = json::parse(request.body);
  const std::string version = Text(wanted, "resourceVersion");
  const std::string uid = Text(wanted, "uid");
  if (!uid.empty() && uid != Text(present, "uid")) return OldVersion(request);
  if (version.empty() && NeedsVersion(request.type.plural)) {
    return Fail(ErrorCode::kInvalidArgument, "metadata.resourceVersion: must be specified for an update");
  }
  if (!version.empty() && version != Text(present, "resourceVersion")) return OldVersion(request);
  return Change(request, collection, present, std::move(wanted));
}

Result<json> ModelServer::Patch(const ApiRequest& request, Collection& collection, const json& present) {
  json wanted = present;
  const json body = json::parse(request.body);
  if (request.patch_type == PatchType::kJson) {
    try {
      wanted = present.patch(body);
    } catch (const json::exception& failed) {
      const bool tested = request.safe_to_repeat;
      return Fail(tested ? ErrorCode::kConflict : ErrorCode::kInvalidArgument, failed.what());
    }
  } else if (request.patch_type == PatchType::kApply) {
    auto applied = Apply(request, present, body);
    if (!applied) return applied;
    wanted = *std::move(applied);
  } else {
    wanted.merge_patch(body);
  }
  if (Text(wanted, "resourceVersion") != Text(present, "resourceVersion")) return OldVersion(request);
  // Nobody compares the UID of a status.
  if (request.subresource.empty() && Text(wanted, "uid") != Text(present, "uid")) {
    return Fail(ErrorCode::kInvalidArgument, request.key.name + " is invalid: metadata.uid: field is immutable");
  }
  return Change(request, collection, present, std::move(wanted));
}

// Server-side apply of labels; more of an object nobody here applies. A label is this manager's as long as it stands there as it
// was applied. What was there before, alike, is somebody else's as well; what differs is a conflict, unless it is taken by force.
Result<json> ModelServer::Apply(const ApiRequest& request, const json& present, const json& body) {
  std::map<std::string, json>& ours = applied_[{Text(present, "uid"), request.query.at("fieldManager")}];
  json object = present;
  if (const std::string uid = Text(body, "uid"); !uid.empty()) object["metadata"]["uid"] = uid;
  json& labels = object["metadata"]["labels"];
  if (!labels.is_object()) labels = json::object();
  std::erase_if(ours, [&](const auto& label) { return labels.value(label.first, json()) != label.second; });
  const json wanted = body["metadata"].value("labels", json::object());
  for (const auto& [name, value] : wanted.items()) {
    const bool taken = !ours.contains(name) && labels.contains(name) && labels[name] != value;
    if (taken && !request.query.contains("force")) return Fail(ErrorCode::kConflict, "label " + name + " is another manager's");
  }
  for (const auto& [name, value] : std::exchange(ours, {})) {
    if (!wanted.contains(name)) {
      labels.erase(name);
    } else {
      ours[name] = wanted[name];
    }
  }
  for (const auto& [name, value] : wanted.items()) {
    if (!labels.contains(name) || labels[name] != value) ours[name] = value;
    labels[name] = value;
  }
  return object;
}

Result<json> ModelServer::Change(const ApiRequest& request, Collection& collection, const json& present, json wanted) {
  if (request.subresource == "status") {
    json only = present;  // the real server takes no metadata from a status either
    if (wanted.contains("status")) {
      only["status"] = std::move(wanted["status"]);
    } else {
      only.erase("status");
    }
    wanted = std::move(only);
  } else {
    if (HasStatus(request.type.plural)) {
      wanted.erase("status");
      if (present.contains("status")) wanted["status"] = present["status"];
    }
    KeepServersFields(present, wanted);
  }
  DropNulls(wanted);
  if (!HasFinalizers(wanted)) wanted["metadata"].erase("finalizers");
  if (admit) admit(request.type.plural, wanted, false);
  if (wanted == present) return present;
  if (wanted.value("spec", json()) != present.value("spec", json())) {
    wanted["metadata"]["generation"] = present["metadata"].value("generation", 0) + 1;
  }
  if (wanted["metadata"].contains("deletionTimestamp") && !HasFinalizers(wanted)) {
    Remove(request.type.plural, collection, request.key, present);  // watches are told what was stored before
    return wanted;
  }
  return Store(request.type.plural, collection, request.key, std::move(wanted));
}

Result<json> ModelServer::Delete(const ApiRequest& request, Collection& collection, const ObjectPtr& present) {
  const json options = request.body.empty() ? json::object() : json::parse(request.body);
  const json wanted = options.value("preconditions", json::object());
  const std::string uid = wanted.value("uid", "");
  const std::string version = wanted.value("resourceVersion", "");
  if (!uid.empty() && uid != Text(*present, "uid")) return OldVersion(request);
  if (!version.empty() && version != Text(*present, "resourceVersion")) return OldVersion(request);
  if (!HasFinalizers(*present)) {
    Remove(request.type.plural, collection, request.key, *present);
    return json{{"kind", "Status"}, {"status", "Success"}};
  }
  if (present->at("metadata").contains("deletionTimestamp")) return *present;
  json object = *present;
  object["metadata"]["deletionTimestamp"] = FormatTime(clock_.WallNow());
  object["metadata"]["generation"] = object["metadata"].value("generation", 0) + 1;
  return Store(request.type.plural, collection, request.key, std::move(object));
}

json ModelServer::Store(const std::string& plural, Collection& collection, const ObjectKey& key, json object) {
  ObjectPtr& stored = collection.objects[key];
  const char* const type = stored == nullptr ? "ADDED" : "MODIFIED";
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  stored = std::make_shared<const json>(std::move(object));
  const ObjectPtr kept = stored;
  Record(plural, collection, type, key, kept);
  return *kept;
}

void ModelServer::Remove(const std::string& plural, Collection& collection, const ObjectKey& key, json last) {
  last["metadata"]["resourceVersion"] = std::to_string(++version_);
  collection.objects.erase(key);
  Record(plural, collection, "DELETED", key, std::make_shared<const json>(std::move(last)));
}

ObjectPtr ModelServer::Find(const api::ResourceType& type, const ObjectKey& key) const {
  const auto& objects = Objects(type);
  const auto it = objects.find(key);
  return it == objects.end() ? nullptr : it->second;
}

const std::map<ObjectKey, ObjectPtr>& ModelServer::Objects(const api::ResourceType& type) const {
  static const std::map<ObjectKey, ObjectPtr> kNone;
  const auto it = collections_.find(type.plural);
  return it == collections_.end() ? kNone : it->second.objects;
}

void ModelServer::Put(const api::ResourceType& type, json object) {
  Collection& collection = collections_[type.plural];
  const ObjectKey key{type.namespaced ? Text(object, "namespace") : "", Text(object, "name")};
  const ObjectPtr present = Find(type, key);
  std::string uid = Text(object, "uid");
  if (uid.empty()) uid = present == nullptr ? NewUid() : Text(*present, "uid");
  if (present != nullptr && Text(*present, "uid") != uid) Erase(type, key);
  object["metadata"]["uid"] = uid;
  Store(type.plural, collection, key, std::move(object));
}

std::string ModelServer::NewUid() {
  const std::string tail = std::to_string(++uids_);
  return "00000000-0000-4000-8000-" + std::string(12 - tail.size(), '0') + tail;
}

void ModelServer::Erase(const api::ResourceType& type, const ObjectKey& key) {
  Collection& collection = collections_[type.plural];
  const auto it = collection.objects.find(key);
  if (it != collection.objects.end()) Remove(type.plural, collection, key, *it->second);
}

}  // namespace cd::kube
