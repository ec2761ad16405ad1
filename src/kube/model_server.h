// A model of the Kubernetes API server, as far as this project uses it, for tests: objects with UIDs and versions, preconditions,
// finalizers, the status subresource, quorum and cached reads, and the history that watches are fed from. Answers are what
// RestClient makes of the real server's; tests/integration/model_server_test.cc puts one script to both.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "src/kube/client.h"

namespace cd::kube {

using ObjectPtr = std::shared_ptr<const nlohmann::json>;

// Which objects a list or watch is about.
struct Selection {
  std::string plural;
  std::string ns;                             // empty: all
  std::string name;                           // empty: all
  std::string node_name;                      // of pods; empty: all
  std::map<std::string, std::string> labels;  // that an object must carry; empty value: whichever

  static Selection Of(const api::ResourceType& type, const std::string& ns, const std::map<std::string, std::string>& query);
  bool Admits(const api::ObjectKey& key, const nlohmann::json& object) const;
};

struct HistoryEvent {
  std::uint64_t version = 0;
  const char* type = "";  // ADDED, MODIFIED, DELETED
  api::ObjectKey key;
  ObjectPtr object;

  // As it goes over a watch.
  const std::string& Text() const;

 private:
  mutable std::string text_;
};

class ModelServer {
 public:
  explicit ModelServer(const Clock& clock) : clock_(clock) {}

  // Executes a request at once.
  Result<nlohmann::json> Handle(const ApiRequest& request);

  std::uint64_t version() const { return version_; }
  // The first event of the selection after `version`; nullptr: none yet. `seen` becomes the version up to which nothing is
  // missed.
  const HistoryEvent* Next(const Selection& selection, std::uint64_t version, std::uint64_t& seen) const;
  // Watches and lists from `version` are refused with 410.
  bool Expired(const std::string& plural, std::uint64_t version) const;
  // Forgets the history of `plural`.
  void Compact(const std::string& plural);
  // How old an answer "from the cache" may be, in events; drawn by the owner.
  std::function<std::size_t(std::size_t available)> cache_lag;
  // Changes what is about to be stored, and hears what was. Either may be empty.
  std::function<void(const std::string& plural, nlohmann::json& object, bool created)> admit;
  std::function<void(const std::string& plural, const HistoryEvent& event)> on_change;

  ObjectPtr Find(const api::ResourceType& type, const api::ObjectKey& key) const;
  const std::map<api::ObjectKey, ObjectPtr>& Objects(const api::ResourceType& type) const;
  // The object as it was some events ago; nullptr: it did not exist.
  ObjectPtr Older(const api::ResourceType& type, const api::ObjectKey& key, std::size_t events_back) const;
  // The list as it was some events ago.
  nlohmann::json OlderList(const ApiRequest& request, std::size_t events_back) const;
  // As it stands there, status included, whoever wrote it; metadata.uid may be left to the server. Another UID than that of the
  // object of this name is another object, and the former one is deleted.
  void Put(const api::ResourceType& type, nlohmann::json object);
  // At once and whatever its finalizers say.
  void Erase(const api::ResourceType& type, const api::ObjectKey& key);

 private:
  struct Collection {
    std::map<api::ObjectKey, ObjectPtr> objects;
    std::vector<HistoryEvent> history;
    std::map<api::ObjectKey, ObjectPtr> before_history;
    std::uint64_t floor = 0;
  };

  Result<nlohmann::json> Create(const ApiRequest& request, Collection& collection);
  Result<nlohmann::json> Replace(const ApiRequest& request, Collection& collection, const nlohmann::json& present);
  Result<nlohmann::json> Patch(const ApiRequest& request, Collection& collection, const nlohmann::json& present);
  Result<nlohmann::json> Delete(const ApiRequest& request, Collection& collection, const ObjectPtr& present);
  Result<nlohmann::json> List(const ApiRequest& request, const Collection& collection) const;
  Result<nlohmann::json> Change(const ApiRequest& request, Collection& collection, const nlohmann::json& present,
                                nlohmann::json wanted);
  nlohmann::json Store(const std::string& plural, Collection& collection, const api::ObjectKey& key, nlohmann::json object);
  Result<nlohmann::json> Apply(const ApiRequest& request, const nlohmann::json& present, const nlohmann::json& body);
  std::string NewUid();
  void Remove(const std::string& plural, Collection& collection, const api::ObjectKey& key, nlohmann::json last);
  void Record(const std::string& plural, Collection& collection, const char* type, const api::ObjectKey& key, ObjectPtr object);
  static nlohmann::json ListOf(const Selection& selection, const std::map<api::ObjectKey, ObjectPtr>& objects,
                               std::uint64_t version);
  static std::map<api::ObjectKey, ObjectPtr> AsOf(const Collection& collection, std::size_t events_back, std::uint64_t& version);

  const Clock& clock_;
  std::uint64_t version_ = 100;
  std::uint64_t uids_ = 0;
  std::map<std::string, Collection> collections_;  // by plural
  // Labels that are one manager's alone, by the object's UID and the manager's name.
  std::map<std::pair<std::string, std::string>, std::map<std::string, nlohmann::json>> applied_;
};

}  // namespace cd::kube
