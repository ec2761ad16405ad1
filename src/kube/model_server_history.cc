// What lists and watches show of the model server: a selection of its objects, as they are, or as they were some events ago.
#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "src/kube/model_server.h"

namespace cd::kube {

using api::ObjectKey;
using nlohmann::json;

Selection Selection::Of(const api::ResourceType& type, const std::string& ns, const std::map<std::string, std::string>& query) {
  static const std::string kName = "metadata.name=", kNodeName = "spec.nodeName=";
  Selection out{type.plural, ns, "", "", {}};
  if (const auto it = query.find("fieldSelector"); it != query.end()) {
    if (it->second.starts_with(kName)) out.name = it->second.substr(kName.size());
    if (it->second.starts_with(kNodeName)) out.node_name = it->second.substr(kNodeName.size());
  }
  if (const auto it = query.find("labelSelector"); it != query.end()) {
    std::istringstream terms(it->second);
    for (std::string term; std::getline(terms, term, ',');) {
      const std::size_t equals = term.find('=');
      out.labels[term.substr(0, equals)] = equals == std::string::npos ? "" : term.substr(equals + 1);
    }
  }
  return out;
}

bool Selection::Admits(const ObjectKey& key, const json& object) const {
  if ((!ns.empty() && key.ns != ns) || (!name.empty() && key.name != name)) return false;
  if (!node_name.empty() && object.value("/spec/nodeName"_json_pointer, "") != node_name) return false;
  return std::all_of(labels.begin(), labels.end(), [&](const auto& wanted) {
    const auto found = object["metadata"].find("labels");
    if (found == object["metadata"].end() || !found->contains(wanted.first)) return false;
    return wanted.second.empty() || found->at(wanted.first) == wanted.second;
  });
}

const std::string& HistoryEvent::Text() const {
  if (text_.empty()) text_ = std::string(R"({"type":")") + type + R"(","object":)" + object->dump() + "}";
  return text_;
}

Result<json> ModelServer::List(const ApiRequest& request, const Collection& collection) const {
  const auto asked = request.query.find("resourceVersion");
  if (asked != request.query.end() && asked->second == "0" && cache_lag) {
    return OlderList(request, cache_lag(collection.history.size()));
  }
  return ListOf(Selection::Of(request.type, request.key.ns, request.query), collection.objects, version_);
}

json ModelServer::ListOf(const Selection& selection, const std::map<ObjectKey, ObjectPtr>& objects, std::uint64_t version) {
  json items = json::array();
  for (const auto& [key, object] : objects) {
    if (selection.Admits(key, *object)) items.push_back(*object);
  }
  return {{"metadata", {{"resourceVersion", std::to_string(version)}}}, {"items", std::move(items)}};
}

void ModelServer::Record(const std::string& plural, Collection& collection, const char* type, const ObjectKey& key,
                         ObjectPtr object) {
  HistoryEvent event;
  event.version = version_;
  event.type = type;
  event.key = key;
  event.object = std::move(object);
  collection.history.push_back(std::move(event));
  if (on_change) on_change(plural, collection.history.back());
}

const HistoryEvent* ModelServer::Next(const Selection& selection, std::uint64_t version, std::uint64_t& seen) const {
  seen = version_;
  const auto it = collections_.find(selection.plural);
  if (it == collections_.end()) return nullptr;
  const std::vector<HistoryEvent>& history = it->second.history;
  auto event = std::upper_bound(history.begin(), history.end(), version,
                                [](std::uint64_t v, const HistoryEvent& e) { return v < e.version; });
  for (; event != history.end(); ++event) {
    if (!selection.Admits(event->key, *event->object)) continue;
    seen = event->version;
    return &*event;
  }
  return nullptr;
}

bool ModelServer::Expired(const std::string& plural, std::uint64_t version) const {
  const auto it = collections_.find(plural);
  return it != collections_.end() && version < it->second.floor;
}

void ModelServer::Compact(const std::string& plural) {
  Collection& collection = collections_[plural];
  collection.history.clear();
  collection.before_history = collection.objects;
  collection.floor = version_;
}

std::map<ObjectKey, ObjectPtr> ModelServer::AsOf(const Collection& collection, std::size_t events_back, std::uint64_t& version) {
  std::map<ObjectKey, ObjectPtr> objects = collection.before_history;
  const std::size_t count = collection.history.size() - std::min(events_back, collection.history.size());
  version = collection.floor;
  for (std::size_t i = 0; i < count; ++i) {
    const HistoryEvent& event = collection.history[i];
    version = event.version;
    if (event.type == std::string_view("DELETED")) {
      objects.erase(event.key);
    } else {
      objects[event.key] = event.object;
    }
  }
  return objects;
}

ObjectPtr ModelServer::Older(const api::ResourceType& type, const ObjectKey& key, std::size_t events_back) const {
  const auto it = collections_.find(type.plural);
  if (it == collections_.end()) return nullptr;
  std::uint64_t version = 0;
  const auto objects = AsOf(it->second, events_back, version);
  const auto found = objects.find(key);
  return found == objects.end() ? nullptr : found->second;
}

json ModelServer::OlderList(const ApiRequest& request, std::size_t events_back) const {
  const auto it = collections_.find(request.type.plural);
  if (it == collections_.end()) return ListOf({}, {}, version_);
  std::uint64_t version = version_;
  const auto objects = events_back == 0 ? it->second.objects : AsOf(it->second, events_back, version);
  // A version of nothing is no version to watch from.
  return ListOf(Selection::Of(request.type, request.key.ns, request.query), objects, std::max<std::uint64_t>(version, 1));
}

}  // namespace cd::kube
