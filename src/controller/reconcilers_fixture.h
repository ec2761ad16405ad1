// For tests of what a reconciler writes, reads, and asks to be called for again. The decisions themselves have tests of their
// own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/manual_executor.h"
#include "src/controller/compute_domain_reconciler.h"

namespace cd::controller {

inline constexpr Duration kGoneAfter = std::chrono::minutes(15);
inline constexpr char kNamespace[] = "team";

// An API server that answers within the call.
class InstantApi final : public kube::ApiClient {
 public:
  void Put(const api::ResourceType& type, nlohmann::json object) {
    const nlohmann::json& metadata = object["metadata"];
    const api::ObjectKey key{type.namespaced ? metadata.value("namespace", "") : "", metadata.value("name", "")};
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    objects_[{type.plural, key}] = std::move(object);
  }
  void Remove(const api::ResourceType& type, const api::ObjectKey& key) { objects_.erase({type.plural, key}); }
  int Gets(const api::ResourceType& type) const {
    return static_cast<int>(std::count_if(requests_.begin(), requests_.end(), [&](const kube::ApiRequest& request) {
      return request.verb == kube::Verb::kGet && request.type.plural == type.plural;
    }));
  }
  int Writes(const api::ResourceType& type, const std::string& subresource) const {
    return static_cast<int>(std::count_if(requests_.begin(), requests_.end(), [&](const kube::ApiRequest& request) {
      return request.verb == kube::Verb::kPatch && request.type.plural == type.plural && request.subresource == subresource;
    }));
  }
  nlohmann::json Find(const api::ResourceType& type, const api::ObjectKey& key) const {
    const auto found = objects_.find({type.plural, key});
    return found == objects_.end() ? nlohmann::json() : found->second;
  }
  // "Reason: note" of the events that were sent.
  std::vector<std::string> Events() const {
    std::vector<std::string> told;
    for (const kube::ApiRequest& request : requests_) {
      if (request.type.plural != api::kEvents.plural) continue;
      const nlohmann::json event = nlohmann::json::parse(request.body);
      told.push_back(event.value("reason", "") + ": " + event.value("note", ""));
    }
    return told;
  }
  // An admission policy: its answer to a request, if it is not what it allows.
  std::function<std::optional<Error>(const kube::ApiRequest&)> policy;

  void Call(kube::ApiRequest request, Callback done) override {
    requests_.push_back(request);
    if (auto refused = policy ? policy(request) : std::nullopt) return done(Fail(*std::move(refused)));
    done(Answer(request));
  }
  std::unique_ptr<kube::WatchStream> Watch(kube::WatchRequest, EventHandler, EndHandler) override { return nullptr; }

 private:
  Result<nlohmann::json> Answer(const kube::ApiRequest& request) {
    if (request.verb == kube::Verb::kList) {
      nlohmann::json items = nlohmann::json::array();
      for (const auto& [key, object] : objects_) {
        if (key.first == request.type.plural) items.push_back(object);
      }
      return nlohmann::json{{"items", std::move(items)}};
    }
    const auto body = request.body.empty() ? nlohmann::json::object() : nlohmann::json::parse(request.body);
    const std::string name = request.key.name.empty() ? body["metadata"].value("name", "") : request.key.name;
    const auto found = objects_.find({request.type.plural, {request.key.ns, name}});
    if (request.verb == kube::Verb::kCreate && found != objects_.end()) return Fail(ErrorCode::kAlreadyExists, "already exists");
    if (request.verb == kube::Verb::kCreate) {
      nlohmann::json made = body;
      made["metadata"]["uid"] = "uid-" + std::to_string(version_);
      Put(request.type, std::move(made));
      return Find(request.type, {request.key.ns, name});
    }
    if (found == objects_.end()) return Fail(ErrorCode::kNotFound, "not found");
    if (request.verb == kube::Verb::kGet) return found->second;
    nlohmann::json written = found->second;
    if (request.verb == kube::Verb::kUpdate) {
      written = body;
    } else if (request.patch_type == kube::PatchType::kJson) {
      written = written.patch(body);
    } else {
      written.merge_patch(body);
    }
    Put(request.type, std::move(written));
    return found->second;
  }

  std::map<std::pair<std::string, api::ObjectKey>, nlohmann::json> objects_;
  std::vector<kube::ApiRequest> requests_;
  int version_ = 100;
};

class ReconcilersTest : public testing::Test {
 protected:
  // The worker's turns that are due.
  void Work() {
    while (const auto key = queue_.TryTake()) {
      const WorkKey work = ParseWorkKey(*key);
      if (work.kind == WorkKind::kImexDomain) {
        ASSERT_TRUE(domains_.Reconcile(work.object.name));
      } else if (work.kind == WorkKind::kComputeDomain) {
        ASSERT_TRUE(compute_domains_.Reconcile(work.object));
      }
      queue_.Done(*key);
    }
  }
  // A write failed, say: the key's next turn comes before the one it has asked for, and the queue keeps the earlier one only.
  void TakeATurnInBetween(const std::string& key) {
    queue_.AddRateLimited(key);
    clock_.Advance(Duration(1'000));
    Work();
  }

  ManualClock clock_;
  kube::WorkQueue queue_{clock_};
  World world_{queue_, clock_, {}};
  InstantApi api_;
  InstantApi events_api_;  // the recorder has a thread of its own
  kube::EventRecorder events_{events_api_, clock_, "controller", "test"};
  Cluster cluster_{api_, world_};
  DomainReconciler domains_{world_, cluster_, queue_, clock_, kGoneAfter};
  WorkloadReader workloads_{api_, clock_};
  ComputeDomainReconciler compute_domains_{world_, cluster_, domains_, queue_, events_, workloads_, clock_, {}};
};

}  // namespace cd::controller
