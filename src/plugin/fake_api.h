// An API server of maps for tests: objects, resource versions, preconditions, watches; and what it was asked. Faults are planted
// by `fault`. Answers come through the executor, as with the real client.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/executor.h"
#include "src/kube/client.h"

namespace cd::plugin {

class FakeApi final : public kube::ApiClient {
 public:
  using Key = std::pair<std::string, api::ObjectKey>;  // plural, namespace and name

  explicit FakeApi(Executor& executor) : executor_(executor) {}

  // An error for this request instead of an answer; or an edit of what a write stores (fields the server drops).
  std::function<std::optional<Error>(const kube::ApiRequest&)> fault;
  std::function<void(nlohmann::json&)> admit;
  Duration answer_delay{0};        // what was done is told that much later; watches tell at once
  bool watches_deaf = false;       // nothing is told of changes
  std::vector<std::string> calls;  // "get imexnodes", "patch imexnodes/status" …
  std::map<Key, nlohmann::json> objects;

  void Put(const api::ResourceType& type, nlohmann::json object) {
    const Key key = KeyOf(type, object);
    auto& stored = objects[key];
    const bool fresh = stored.is_null();
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    if (!object["metadata"].contains("uid"))
      object["metadata"]["uid"] = fresh ? nlohmann::json(NewUid()) : stored["metadata"]["uid"];
    stored = std::move(object);
    Tell(type.plural, fresh ? "ADDED" : "MODIFIED", stored);
  }
  void Remove(const api::ResourceType& type, const api::ObjectKey& key) {
    const auto it = objects.find({type.plural, key});
    if (it == objects.end()) return;
    const nlohmann::json gone = it->second;
    objects.erase(it);
    ++version_;
    Tell(type.plural, "DELETED", gone);
  }
  const nlohmann::json* Find(const api::ResourceType& type, const api::ObjectKey& key) const {
    const auto it = objects.find({type.plural, key});
    return it == objects.end() ? nullptr : &it->second;
  }
  // Every watch has to list anew: what was told last is no longer known here.
  void ExpireWatches() {
    const std::string event =
        nlohmann::json{{"type", "ERROR"}, {"object", {{"kind", "Status"}, {"code", 410}, {"reason", "Expired"}}}}.dump();
    for (const Watcher& watcher : watches_) executor_.Post([event, on_event = watcher.on_event] { on_event(event); });
  }
  int Count(const std::string& call) const {
    int count = 0;
    for (const std::string& made : calls) count += made == call;
    return count;
  }

  void Call(kube::ApiRequest request, Callback done) override {
    calls.push_back(NameOf(request));
    executor_.Post([this, request = std::move(request), done = std::move(done)] {
      if (answer_delay == Duration(0)) return done(Answer(request));
      executor_.PostAfter(answer_delay, [answer = Answer(request), done] { done(answer); });
    });
  }

  std::unique_ptr<kube::WatchStream> Watch(kube::WatchRequest request, EventHandler on_event, EndHandler) override {
    watches_.push_back({request.type.plural, FieldName(request.query), std::move(on_event)});
    return std::make_unique<Stream>(*this, std::prev(watches_.end()));
  }

 private:
  struct Watcher {
    std::string plural;
    std::string name;  // of the only object wanted; empty: all
    EventHandler on_event;
  };
  class Stream final : public kube::WatchStream {
   public:
    Stream(FakeApi& api, std::list<Watcher>::iterator watcher) : api_(api), watcher_(watcher) {}
    ~Stream() override { api_.watches_.erase(watcher_); }

   private:
    FakeApi& api_;
    std::list<Watcher>::iterator watcher_;
  };

  static std::string FieldName(const std::map<std::string, std::string>& query) {
    static const std::string kPrefix = "metadata.name=";
    const auto it = query.find("fieldSelector");
    return it != query.end() && it->second.starts_with(kPrefix) ? it->second.substr(kPrefix.size()) : "";
  }
  static std::string NameOf(const kube::ApiRequest& request) {
    static const char* kVerbs[] = {"get", "list", "create", "update", "patch", "delete"};
    return std::string(kVerbs[static_cast<int>(request.verb)]) + " " + request.type.plural +
           (request.subresource.empty() ? "" : "/" + request.subresource);
  }
  static Key KeyOf(const api::ResourceType& type, const nlohmann::json& object) {
    return {type.plural,
            {type.namespaced ? object["metadata"].value("namespace", "") : "", object["metadata"].value("name", "")}};
  }
  std::string NewUid() {
    const std::string tail = std::to_string(++uids_);
    return "00000000-0000-4000-8000-" + std::string(12 - tail.size(), '0') + tail;
  }

  Result<nlohmann::json> Answer(const kube::ApiRequest& request) {
    if (fault) {
      if (auto error = fault(request)) return Fail(*error);
    }
    const Key key{request.type.plural, request.key};
    const auto found = objects.find(key);
    switch (request.verb) {
      case kube::Verb::kList:
        return List(request);
      case kube::Verb::kCreate: {
        nlohmann::json object = nlohmann::json::parse(request.body);
        if (objects.contains(KeyOf(request.type, object))) return Fail(ErrorCode::kAlreadyExists, "already exists");
        const Key created = KeyOf(request.type, object);
        return Store(request.type, created, std::move(object));
      }
      case kube::Verb::kGet:
        if (found == objects.end()) return Fail(ErrorCode::kNotFound, "not found");
        return found->second;
      case kube::Verb::kDelete:
        if (found == objects.end()) return Fail(ErrorCode::kNotFound, "not found");
        Remove(request.type, request.key);
        return nlohmann::json::object();
      case kube::Verb::kUpdate:
      case kube::Verb::kPatch:
        if (found == objects.end()) return Fail(ErrorCode::kNotFound, "not found");
        return Change(request, key, found->second);
    }
    return Fail(ErrorCode::kInternal, "unknown verb");
  }
  Result<nlohmann::json> Change(const kube::ApiRequest& request, const Key& key, const nlohmann::json& present) {
    const nlohmann::json body = nlohmann::json::parse(request.body);
    const std::string wanted = body.contains("metadata") ? body["metadata"].value("resourceVersion", "") : "";
    if (!wanted.empty() && present["metadata"]["resourceVersion"] != nlohmann::json(wanted))
      return Fail(ErrorCode::kConflict, "resourceVersion is old");
    nlohmann::json object = present;
    if (request.verb == kube::Verb::kUpdate) {
      object = body;
      object["metadata"]["uid"] = present["metadata"]["uid"];
    } else {
      object.merge_patch(body);
    }
    return Store(request.type, key, std::move(object));
  }
  Result<nlohmann::json> Store(const api::ResourceType& type, const Key& key, nlohmann::json object) {
    if (admit) admit(object);
    Put(type, std::move(object));
    return objects[key];
  }
  Result<nlohmann::json> List(const kube::ApiRequest& request) const {
    nlohmann::json items = nlohmann::json::array();
    const std::string name = FieldName(request.query);
    for (const auto& [key, object] : objects) {
      if (key.first != request.type.plural || (!request.key.ns.empty() && key.second.ns != request.key.ns)) continue;
      if (name.empty() || key.second.name == name) items.push_back(object);
    }
    return nlohmann::json{{"metadata", {{"resourceVersion", std::to_string(version_)}}}, {"items", std::move(items)}};
  }
  void Tell(const std::string& plural, const char* type, const nlohmann::json& object) {
    if (watches_deaf) return;
    const std::string event = nlohmann::json{{"type", type}, {"object", object}}.dump();
    for (const Watcher& watcher : watches_) {
      if (watcher.plural != plural || (!watcher.name.empty() && object["metadata"]["name"] != nlohmann::json(watcher.name)))
        continue;
      executor_.Post([event, on_event = watcher.on_event] { on_event(event); });
    }
  }

  Executor& executor_;
  std::list<Watcher> watches_;
  int version_ = 100;
  int uids_ = 0;
};

}  // namespace cd::plugin
