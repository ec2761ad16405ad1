// The API server of the plugin's tests: kube::ModelServer behind a client that tells what it was asked, and that faults are
// planted in. Answers come through the executor, as with the real client. Test code only.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/executor.h"
#include "src/kube/client.h"
#include "src/kube/model_server.h"

namespace cd::plugin {

class FakeApi final : public kube::ApiClient {
 public:
  explicit FakeApi(Executor& executor) : executor_(executor), server_(executor.clock()) {
    server_.admit = [this](const std::string&, nlohmann::json& object, bool) {
      if (admit) admit(object);
    };
    server_.on_change = [this](const std::string&, const kube::HistoryEvent&) { Tell(); };
  }

  // An error for this request instead of an answer; or an edit of what a write stores (fields the server drops).
  std::function<std::optional<Error>(const kube::ApiRequest&)> fault;
  std::function<void(nlohmann::json&)> admit;
  Duration answer_delay{0};        // what was done is told that much later; watches tell at once
  bool watches_deaf = false;       // nothing is told of changes, also later
  std::vector<std::string> calls;  // "get imexnodes", "patch imexnodes/status" …

  // What somebody else does, whoever may. An object that is replaced keeps its UID unless another one is given.
  void Put(const api::ResourceType& type, nlohmann::json object) { server_.Put(type, std::move(object)); }
  void Remove(const api::ResourceType& type, const api::ObjectKey& key) { server_.Erase(type, key); }
  // As it is now; nullptr: there is none. Valid as long as the server, but not changed with the object.
  const nlohmann::json* Find(const api::ResourceType& type, const api::ObjectKey& key) const {
    return server_.Find(type, key).get();
  }
  std::size_t Size(const api::ResourceType& type) const { return server_.Objects(type).size(); }
  // Every watch has to list anew: what was told last is no longer known here.
  void ExpireWatches() {
    const std::string event =
        nlohmann::json{{"type", "ERROR"}, {"object", {{"kind", "Status"}, {"code", 410}, {"reason", "Expired"}}}}.dump();
    for (const Watcher& watcher : watches_) Post(watcher, event);
  }
  int Count(const std::string& call) const { return static_cast<int>(std::count(calls.begin(), calls.end(), call)); }

  void Call(kube::ApiRequest request, Callback done) override {
    calls.push_back(NameOf(request));
    executor_.Post([this, request = std::move(request), done = std::move(done)] {
      if (answer_delay == Duration(0)) return done(Answer(request));
      executor_.PostAfter(answer_delay, [answer = Answer(request), done] { done(answer); });
    });
  }

  std::unique_ptr<kube::WatchStream> Watch(kube::WatchRequest request, EventHandler on_event, EndHandler) override {
    watches_.push_back({kube::Selection::Of(request.type, request.ns, request.query),
                        std::stoull(request.query.at("resourceVersion")), std::move(on_event)});
    Tell();  // what has happened since the list
    return std::make_unique<Stream>(*this, std::prev(watches_.end()));
  }

 private:
  struct Watcher {
    kube::Selection selection;
    std::uint64_t version;  // up to which it has been told
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

  static std::string NameOf(const kube::ApiRequest& request) {
    static const char* kVerbs[] = {"get", "list", "create", "update", "patch", "delete"};
    return std::string(kVerbs[static_cast<int>(request.verb)]) + " " + request.type.plural +
           (request.subresource.empty() ? "" : "/" + request.subresource);
  }

  Result<nlohmann::json> Answer(const kube::ApiRequest& request) {
    if (fault) {
      if (auto error = fault(request)) return Fail(*error);
    }
    return server_.Handle(request);
  }
  void Tell() {
    for (Watcher& watcher : watches_) {
      while (const kube::HistoryEvent* event = server_.Next(watcher.selection, watcher.version, watcher.version)) {
        if (!watches_deaf) Post(watcher, event->Text());
      }
    }
  }
  void Post(const Watcher& watcher, std::string event) {
    executor_.Post([event = std::move(event), on_event = watcher.on_event] { on_event(event); });
  }

  Executor& executor_;
  kube::ModelServer server_;
  std::list<Watcher> watches_;
};

}  // namespace cd::plugin
