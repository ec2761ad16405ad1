// What a reconciler asks to be called for again. The decisions themselves have tests of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "src/api/imex_node.h"
#include "src/base/manual_executor.h"
#include "src/controller/compute_domain_reconciler.h"
#include "src/domain/testing.h"

namespace cd::controller {
namespace {

using domain::testing::kClique;
using nlohmann::json;

constexpr Duration kGoneAfter = std::chrono::minutes(15);
constexpr char kNamespace[] = "team";

// An API server that answers within the call.
class InstantApi final : public kube::ApiClient {
 public:
  void Put(const api::ResourceType& type, json object) {
    const json& metadata = object["metadata"];
    const api::ObjectKey key{type.namespaced ? metadata.value("namespace", "") : "", metadata.value("name", "")};
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    objects_[{type.plural, key}] = std::move(object);
  }
  int Gets(const api::ResourceType& type) const {
    return static_cast<int>(std::count_if(requests_.begin(), requests_.end(), [&](const kube::ApiRequest& request) {
      return request.verb == kube::Verb::kGet && request.type.plural == type.plural;
    }));
  }

  void Call(kube::ApiRequest request, Callback done) override {
    requests_.push_back(request);
    done(Answer(request));
  }
  std::unique_ptr<kube::WatchStream> Watch(kube::WatchRequest, EventHandler, EndHandler) override { return nullptr; }

 private:
  Result<json> Answer(const kube::ApiRequest& request) {
    if (request.verb == kube::Verb::kList) {
      json items = json::array();
      for (const auto& [key, object] : objects_) {
        if (key.first == request.type.plural) items.push_back(object);
      }
      return json{{"items", std::move(items)}};
    }
    const auto body = request.body.empty() ? json::object() : json::parse(request.body);
    const std::string name = request.key.name.empty() ? body["metadata"].value("name", "") : request.key.name;
    const auto found = objects_.find({request.type.plural, {request.key.ns, name}});
    if (request.verb == kube::Verb::kCreate && found != objects_.end()) return Fail(ErrorCode::kAlreadyExists, "already exists");
    if (found == objects_.end()) return Fail(ErrorCode::kNotFound, "not found");
    if (request.verb == kube::Verb::kGet) return found->second;
    json written = found->second;
    if (request.verb == kube::Verb::kUpdate) {
      written = body;
    } else {
      written.merge_patch(body);
    }
    Put(request.type, std::move(written));
    return found->second;
  }

  std::map<std::pair<std::string, api::ObjectKey>, json> objects_;
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
  World world_{queue_, clock_};
  InstantApi api_;
  InstantApi events_api_;  // the recorder has a thread of its own
  kube::EventRecorder events_{events_api_, clock_, "controller", "test"};
  Cluster cluster_{api_, world_};
  DomainReconciler domains_{world_, cluster_, queue_, clock_, kGoneAfter};
  WorkloadReader workloads_{api_, clock_};
  ComputeDomainReconciler compute_domains_{world_, cluster_, domains_, queue_, events_, workloads_, clock_};
};

// Nodes a and b are members; b's IMEXNode is gone, and its Node.
class LostMember : public ReconcilersTest {
 protected:
  LostMember() {
    const api::ImexNode a = domain::testing::Assigned("a", 0);
    json node = api::EncodeImexNode(a);
    node["status"] = api::EncodeImexNodeStatus(a.status);
    api_.Put(api::kImexNodes, node);
    world_.Put(std::make_shared<const api::ImexNode>(a), Source::kWatch);

    api::ImexDomain domain = domain::testing::Domain();
    domain.members = {domain::testing::Member(0, "a"), domain::testing::Member(1, "b")};
    api_.Put(api::kImexDomains, api::EncodeImexDomain(domain));
    world_.Put(std::make_shared<const api::ImexDomain>(domain), Source::kWatch);
    Work();
  }
  std::vector<std::string> Members() const {
    const DomainSnapshot snapshot = world_.SnapshotDomain(kClique);
    std::vector<std::string> names;
    for (const api::DomainMember& member : snapshot.clique.domain->members) names.push_back(member.node);
    return names;
  }
};

TEST_F(LostMember, keeps_its_slot_until_its_node_was_absent_twice_and_nobody_polls_meanwhile) {
  clock_.Advance(kGoneAfter - Duration(1));
  Work();
  EXPECT_EQ(Members(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(api_.Gets(api::kNodes), 1);
  clock_.Advance(Duration(1));
  Work();
  EXPECT_EQ(Members(), std::vector<std::string>{"a"});
}

TEST_F(LostMember, is_looked_for_again_although_another_turn_came_in_between) {
  TakeATurnInBetween(ImexDomainKey(kClique));
  EXPECT_EQ(api_.Gets(api::kNodes), 1) << "too early for the second look";
  clock_.Advance(kGoneAfter);
  Work();
  EXPECT_EQ(Members(), std::vector<std::string>{"a"});
}

// The ComputeDomain team/red, whose template's name somebody else has taken.
class ForeignTemplate : public ReconcilersTest {
 protected:
  ForeignTemplate() {
    api_.Put(api::kResourceClaimTemplates, {{"metadata", {{"namespace", kNamespace}, {"name", "red-channel"}, {"uid", "theirs"}}}});
    const api::ComputeDomain red = domain::testing::Red();
    api_.Put(api::kComputeDomains,
             {{"metadata",
               {{"namespace", kNamespace}, {"name", "red"}, {"uid", red.meta.uid}, {"finalizers", red.meta.finalizers}}},
              {"spec", {{"channel", {{"resourceClaimTemplate", {{"name", "red-channel"}}}}}}}});
    world_.Put(std::make_shared<const api::ComputeDomain>(red), Source::kWatch);
    Work();
  }
};

TEST_F(ForeignTemplate, is_read_again_although_another_turn_came_in_between) {
  ASSERT_EQ(api_.Gets(api::kResourceClaimTemplates), 1);
  TakeATurnInBetween(ComputeDomainKey({kNamespace, "red"}));
  EXPECT_EQ(api_.Gets(api::kResourceClaimTemplates), 1) << "too early for the second look";
  clock_.Advance(std::chrono::seconds(30));
  Work();
  EXPECT_EQ(api_.Gets(api::kResourceClaimTemplates), 2);
}

}  // namespace
}  // namespace cd::controller
