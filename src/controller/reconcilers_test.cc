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
    api_.Put(api::kResourceClaimTemplates,
             {{"metadata", {{"namespace", kNamespace}, {"name", "red-channel"}, {"uid", "theirs"}}}});
    const api::ComputeDomain red = domain::testing::Red();
    api_.Put(
        api::kComputeDomains,
        {{"metadata", {{"namespace", kNamespace}, {"name", "red"}, {"uid", red.meta.uid}, {"finalizers", red.meta.finalizers}}},
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

// partitionPolicy Single. Red has given kClique up, its lease there is Draining, and its pod in kOther waits. By the API another
// pod has begun on node a of kClique; this process has not heard of it yet.
class LateNews : public ReconcilersTest {
 protected:
  static constexpr char kOther[] = "3f0e6c1a-0000-4000-8000-000000000001.2";

  LateNews() {
    red_.partition_policy = api::PartitionPolicy::kSingle;
    json red = {{"metadata", {{"namespace", kNamespace}, {"name", "red"}, {"uid", red_.meta.uid}, {"resourceVersion", "1"}}},
                {"spec", {{"channel", {{"resourceClaimTemplate", {{"name", "red-channel"}}}}}, {"partitionPolicy", "Single"}}}};
    red["metadata"]["finalizers"] = red_.meta.finalizers;
    api_.Put(api::kComputeDomains, red);
    json claim_template = {{"metadata",
                            {{"namespace", kNamespace},
                             {"name", "red-channel"},
                             {"uid", "template"},
                             {"resourceVersion", "1"},
                             {"labels", {{api::kComputeDomainLabel, red_.meta.uid}}}}}};
    world_.Put(std::make_shared<const ClaimTemplate>(*DecodeClaimTemplate(claim_template)), Source::kWatch);

    api::ImexDomain domain = domain::testing::Domain();
    domain.members = {domain::testing::Member(0, "a")};
    domain.channels = {domain::testing::Lease(1, red_.meta.uid, api::LeaseState::kDraining)};
    world_.Put(std::make_shared<const api::ImexDomain>(domain), Source::kWatch);
    api::ImexDomain other = domain::testing::Domain();
    other.meta.name = other.clique_id = kOther;
    other.meta.uid = "other-uid";
    other.members = {domain::testing::Member(0, "b")};
    world_.Put(std::make_shared<const api::ImexDomain>(other), Source::kWatch);

    world_.Put(std::make_shared<const api::ImexNode>(domain::testing::Assigned("a", 0)), Source::kWatch);
    api::ImexNode b = domain::testing::Assigned("b", 0);
    b.domain = api::DomainAssignment{kOther, "other-uid", 0};
    b.status.clique_ids = {kOther};
    world_.Put(std::make_shared<const api::ImexNode>(b), Source::kWatch);
    PutNode(begun_);
    PutNode(b);

    api_.Put(api::kResourceClaims, Claim("late", "a"));
    api_.Put(api::kResourceClaims, Claim("known", "b"));
    Hear(Claim("known", "b"));
    world_.Put(std::make_shared<const api::ComputeDomain>(red_), Source::kWatch);
  }
  void PutNode(const api::ImexNode& node) {
    json object = api::EncodeImexNode(node);
    object["status"] = api::EncodeImexNodeStatus(node.status);
    api_.Put(api::kImexNodes, object);
  }
  json Claim(const std::string& name, const std::string& node) const {
    const json config = {{"source", "FromClaim"},
                         {"requests", json::array({"channel"})},
                         {"opaque",
                          {{"driver", api::kDriverName},
                           {"parameters",
                            {{"apiVersion", "resource.nvidia.com/v1beta1"},
                             {"kind", "ComputeDomainChannelConfig"},
                             {"domainID", red_.meta.uid}}}}}};
    const json result = {{"driver", api::kDriverName}, {"pool", node}, {"device", "channel-0"}, {"request", "channel"}};
    const json pod = {{"resource", "pods"}, {"name", name}, {"uid", name + "-pod"}};
    return {{"metadata", {{"namespace", kNamespace}, {"name", name}, {"uid", name + "-uid"}, {"resourceVersion", "1"}}},
            {"status",
             {{"allocation", {{"devices", {{"results", json::array({result})}, {"config", json::array({config})}}}}},
              {"reservedFor", json::array({pod})}}}};
  }
  void Hear(const json& claim) { world_.Put(std::make_shared<const ChannelClaim>(*DecodeChannelClaim(claim)), Source::kWatch); }
  // Statuses are not written at once.
  Status Reconcile() {
    Status last;
    for (int i = 0; i < 3 && last; ++i) {
      last = compute_domains_.Reconcile(red_.meta.Key());
      clock_.Advance(std::chrono::seconds(3));
    }
    return last;
  }
  std::string Partition() const { return world_.SnapshotComputeDomain(red_.meta.Key())->cd->status.partition; }

  api::ComputeDomain red_ = domain::testing::Red();
  const api::ImexNode begun_ = domain::testing::Holding(domain::testing::Assigned("a", 0), 1, domain::testing::Red().meta.uid);
};

TEST_F(LateNews, of_a_pod_that_has_begun_keep_another_partition_from_being_chosen) {
  const Status refused = Reconcile();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_NE(refused.error().message.find("node a"), std::string::npos) << refused.error().message;
  EXPECT_EQ(Partition(), "");
}

TEST_F(LateNews, once_here_bring_the_choice_back) {
  Hear(Claim("late", "a"));
  world_.Put(std::make_shared<const api::ImexNode>(begun_), Source::kWatch);
  ASSERT_TRUE(Reconcile());
  EXPECT_EQ(Partition(), kClique);
}

TEST_F(LateNews, of_what_is_left_of_a_pod_without_claim_keep_nobody_waiting) {
  json gone = Claim("late", "a");
  gone["status"].erase("reservedFor");
  api_.Put(api::kResourceClaims, gone);
  ASSERT_TRUE(Reconcile());
  EXPECT_EQ(Partition(), kOther);
}

}  // namespace
}  // namespace cd::controller
