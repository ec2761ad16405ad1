// A local copy of one resource type, kept current by list and watch.
//
// Contract. (1) Handlers run on the client's executor, one at a time. (2) Order holds per object, not across objects; states may
// be skipped. (3) A handler added late gets kAdded for everything in the store. (4) Delete and create under one name may look
// like one change to the server's clients: here it is told as kDeleted of the old and kAdded of the new UID. (5) After Synced()
// the store once equalled a consistent state of the server; it may lag behind the server at any time, so nothing that breaks a
// rule when stale may be decided from it alone. (6) Objects handed out are shared and immutable.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/api/meta.h"
#include "src/base/executor.h"
#include "src/kube/client.h"

namespace cd::kube {

enum class ChangeType { kAdded, kModified, kDeleted };

// What is listed and watched.
struct InformerOptions {
  api::ResourceType type = {};
  std::string ns = {};  // empty: all
  std::string label_selector = {};
  std::string field_selector = {};  // e.g. metadata.name=node-1
  bool fresh = false;               // the first list comes from no cache: the store never shows what was before Start
};

// List-watch loop of one type, without a store. Start() once; the destructor stops it. Client's executor only.
class Reflector {
 public:
  struct Handlers {
    // The complete list as of `version`, replaces everything known. Items are the API's JSON objects.
    std::function<void(const std::vector<const nlohmann::json*>& items, const std::string& version)> replace;
    std::function<void(ChangeType type, const nlohmann::json& object)> change;
  };

  Reflector(ApiClient& client, Executor& executor, InformerOptions options, Handlers handlers, std::uint64_t seed);
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  void Start();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

// Typed store. `T` needs `ObjectMeta meta`; `Decode` turns JSON into Result<T>; an object that cannot be decoded is logged once
// per resourceVersion and treated as absent.
template <typename T>
class Informer {
 public:
  using Ptr = std::shared_ptr<const T>;
  using Decode = std::function<Result<T>(const nlohmann::json&)>;
  // kDeleted carries the last known state.
  using Handler = std::function<void(ChangeType, const Ptr& object)>;

  Informer(ApiClient& client, Executor& executor, InformerOptions options, Decode decode, std::uint64_t seed = 0);

  // Before Start or after; on the executor.
  void AddHandler(Handler handler);
  void OnSynced(std::function<void()> done);
  // Runs after every complete list, the first one included, with its resourceVersion: what is not in the store by then, and whose
  // version is no newer, does not exist. No handler is told so of an object that came and went while nobody watched; it may be
  // known from elsewhere, as from the answer to its creation. Before Start; one handler.
  void OnListed(std::function<void(const std::string& version)> handler) { on_listed_ = std::move(handler); }
  void Start() { reflector_.Start(); }
  bool Synced() const { return synced_; }

  Ptr Get(const api::ObjectKey& key) const;
  const std::map<api::ObjectKey, Ptr>& objects() const { return objects_; }

 private:
  void Replace(const std::vector<const nlohmann::json*>& items, const std::string& version);
  void Change(ChangeType type, const nlohmann::json& json);
  void Put(Ptr object);
  void Erase(const api::ObjectKey& key);
  void Notify(ChangeType type, const Ptr& object);

  InformerOptions options_;
  Decode decode_;
  std::map<api::ObjectKey, Ptr> objects_;
  std::map<api::ObjectKey, std::string> undecodable_;  // resourceVersion that was logged
  std::deque<Handler> handlers_;                       // a handler may add a handler: references must stay valid
  std::vector<std::function<void()>> on_synced_;
  std::function<void(const std::string& version)> on_listed_;
  bool synced_ = false;
  Reflector reflector_;  // last: it calls back into the members above
};

}  // namespace cd::kube

#include "src/kube/informer_inl.h"
