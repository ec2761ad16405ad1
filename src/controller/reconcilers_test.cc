// What a reconciler asks to be called for again. The decisions themselves have tests of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "src/api/imex_node.h"
#include "src/base/manual_executor.h"
#include "src/controller/compute_domain_reconciler.h"
#include "src/domain/testing.h"
#include "src/domain/unseen.h"

namespace cd::controller {
namespace {

using domain::testing::kClique;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

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

  int Writes(const api::ResourceType& type, const std::string& subresource) const {
    return static_cast<int>(std::count_if(requests_.begin(), requests_.end(), [&](const kube::ApiRequest& request) {
      return request.verb == kube::Verb::kPatch && request.type.plural == type.plural && request.subresource == subresource;
    }));
  }
  json Find(const api::ResourceType& type, const api::ObjectKey& key) const {
    const auto found = objects_.find({type.plural, key});
    return found == objects_.end() ? json() : found->second;
  }
  // "Reason: note" of the events that were sent.
  std::vector<std::string> Events() const {
    std::vector<std::string> told;
    for (const kube::ApiRequest& request : requests_) {
      if (request.type.plural != api::kEvents.plural) continue;
      const json event = json::parse(request.body);
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
    if (request.verb == kube::Verb::kCreate) {
      Put(request.type, body);
      return Find(request.type, {request.key.ns, name});
    }
    if (found == objects_.end()) return Fail(ErrorCode::kNotFound, "not found");
    if (request.verb == kube::Verb::kGet) return found->second;
    json written = found->second;
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
  World world_{queue_, clock_, {}};
  InstantApi api_;
  InstantApi events_api_;  // the recorder has a thread of its own
  kube::EventRecorder events_{events_api_, clock_, "controller", "test"};
  Cluster cluster_{api_, world_};
  DomainReconciler domains_{world_, cluster_, queue_, clock_, kGoneAfter};
  WorkloadReader workloads_{api_, clock_};
  ComputeDomainReconciler compute_domains_{world_, cluster_, domains_, queue_, events_, workloads_, clock_, {}};
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

// Nodes a, b and c are members and READY.
class ContradictedMember : public ReconcilersTest {
 protected:
  ContradictedMember() {
    api::ImexDomain domain = domain::testing::Domain();
    for (int i = 0; i < 3; ++i) domain.members.push_back(domain::testing::Member(i, kNames[i]));
    api_.Put(api::kImexDomains, api::EncodeImexDomain(domain));
    world_.Put(std::make_shared<const api::ImexDomain>(domain), Source::kWatch);
    Report({{1, 2}, {0, 2}, {0, 1}});
  }
  // What each of them is connected with.
  void Report(const std::vector<std::vector<int>>& connected) {
    for (int i = 0; i < 3; ++i) {
      api::ImexNode node = domain::testing::Assigned(kNames[i], i);
      node.meta.resource_version = std::to_string(++version_);
      node.status.daemon.connected = connected[i];
      world_.Put(std::make_shared<const api::ImexNode>(node), Source::kWatch);
    }
    Work();
  }
  std::vector<std::string> Unseen() const {
    std::vector<std::string> names;
    const DomainSnapshot snapshot = world_.SnapshotDomain(kClique);
    for (const api::DomainMember& member : snapshot.clique.domain->members) {
      if (member.unseen) names.push_back(member.node);
    }
    return names;
  }

  static constexpr std::array kNames{"a", "b", "c"};
  int version_ = 0;
};

TEST_F(ContradictedMember, is_marked_after_half_a_minute_and_no_more_when_it_is_seen) {
  Report({{1}, {0}, {}});
  clock_.Advance(domain::kUnseenFor - Duration(1));
  Work();
  EXPECT_THAT(Unseen(), ElementsAre());
  clock_.Advance(Duration(1));
  Work();
  EXPECT_THAT(Unseen(), ElementsAre("c"));
  Report({{1, 2}, {0, 2}, {0, 1}});
  EXPECT_THAT(Unseen(), ElementsAre());
}

TEST_F(ContradictedMember, that_was_seen_meanwhile_is_given_its_time_anew) {
  Report({{1}, {0}, {}});
  clock_.Advance(domain::kUnseenFor - Duration(1));
  Report({{1, 2}, {0, 2}, {0, 1}});
  Report({{1}, {0}, {}});
  clock_.Advance(Duration(1));
  Work();
  EXPECT_THAT(Unseen(), ElementsAre());
  clock_.Advance(domain::kUnseenFor);
  Work();
  EXPECT_THAT(Unseen(), ElementsAre("c"));
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

TEST_F(LateNews, of_a_channel_in_an_exclusive_domain_of_the_partition_keep_nobody_waiting) {
  json gone = Claim("late", "a");
  gone["status"].erase("reservedFor");
  api_.Put(api::kResourceClaims, gone);
  const std::string exclusive = api::DomainName({kOther, red_.meta.uid});
  api::ImexNode b = domain::testing::Holding(domain::testing::Assigned("b", 0), 1, red_.meta.uid, "exclusive-uid");
  b.domain = api::DomainAssignment{exclusive, "exclusive-uid", 0};
  b.status.clique_ids = {kOther};
  b.status.channels[0].domain = exclusive;
  b.meta.resource_version = "90";
  world_.Put(std::make_shared<const api::ImexNode>(b), Source::kWatch);
  PutNode(b);
  ASSERT_TRUE(Reconcile());
  EXPECT_EQ(Partition(), kOther);
}

TEST_F(ForeignTemplate, that_is_our_own_without_label_is_told_apart) {
  const json owner = {{"apiVersion", "v1"}, {"kind", "ComputeDomain"}, {"name", "red"}, {"uid", domain::testing::kRed}};
  api_.Put(api::kResourceClaimTemplates,
           {{"metadata",
             {{"namespace", kNamespace}, {"name", "red-channel"}, {"uid", "ours"}, {"ownerReferences", json::array({owner})}}}});
  clock_.Advance(std::chrono::seconds(30));
  Work();
  const json red = api_.Find(api::kComputeDomains, {kNamespace, "red"});
  EXPECT_THAT(red["status"]["conditions"][0].value("message", ""), HasSubstr("this ComputeDomain, but has lost its label"));
}

// The ComputeDomain team/red in a namespace whose admission policy does not let the controller write all it has to.
class RefusedWrites : public ReconcilersTest {
 protected:
  void Make(bool finalizer, bool deleting) {
    api::ComputeDomain red = domain::testing::Red();
    if (!finalizer) red.meta.finalizers.clear();
    red.meta.deleting = deleting;
    json metadata = {{"namespace", kNamespace}, {"name", "red"}, {"uid", red.meta.uid}, {"generation", 1}};
    if (finalizer) metadata["finalizers"] = red.meta.finalizers;
    if (deleting) metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z";
    api_.Put(api::kComputeDomains,
             {{"metadata", metadata}, {"spec", {{"channel", {{"resourceClaimTemplate", {{"name", "red-channel"}}}}}}}});
    red.meta.resource_version = Red()["metadata"]["resourceVersion"];
    world_.Put(std::make_shared<const api::ComputeDomain>(red), Source::kWatch);
  }
  // From now on; a policy that tells the time says something else each time.
  void Refuse(const std::string& subresource) {
    api_.policy = [this, subresource](const kube::ApiRequest& request) -> std::optional<Error> {
      const bool write = request.verb == kube::Verb::kPatch && request.type.plural == api::kComputeDomains.plural;
      if (!write || request.subresource != subresource) return std::nullopt;
      return Error{ErrorCode::kInvalidArgument, "policy house-rules says no at " + std::to_string(++times_)};
    };
  }
  Status Reconcile() { return compute_domains_.Reconcile({kNamespace, "red"}); }
  json Red() const { return api_.Find(api::kComputeDomains, {kNamespace, "red"}); }
  std::string Accepted() const {
    for (const json& condition : Red()["status"].value("conditions", json::array())) {
      if (condition["type"] == "Accepted") return condition.value("reason", "") + ": " + condition.value("message", "");
    }
    return "";
  }

  int times_ = 0;
};

TEST_F(RefusedWrites, finalizer_is_told_in_condition_and_event_and_tried_again) {
  Make(false, false);
  Refuse("");
  EXPECT_FALSE(Reconcile()) << "the queue must try again";
  EXPECT_FALSE(Reconcile());
  EXPECT_EQ(times_, 2);
  EXPECT_THAT(Accepted(), AllOf(StartsWith("FinalizerRefused: "), HasSubstr("house-rules"), HasSubstr(api::kFinalizer)));
  EXPECT_THAT(events_api_.Events(), ElementsAre(Accepted())) << "once, whatever the policy says the second time";
  EXPECT_EQ(api_.Writes(api::kComputeDomains, "status"), 1);

  api_.policy = nullptr;
  EXPECT_TRUE(Reconcile());
  EXPECT_THAT(Accepted(), StartsWith("Accepted: "));
}

TEST_F(RefusedWrites, status_is_told_in_an_event) {
  Make(true, false);
  Refuse("status");
  EXPECT_FALSE(Reconcile()) << "the queue must try again";
  EXPECT_FALSE(Reconcile());
  EXPECT_THAT(events_api_.Events(), ElementsAre(AllOf(StartsWith("StatusRefused: "), HasSubstr("house-rules"))));
  clock_.Advance(std::chrono::seconds(30));
  EXPECT_FALSE(Reconcile());
  EXPECT_EQ(events_api_.Events().size(), 2U) << "it may have changed its mind since";
}

TEST_F(RefusedWrites, what_keeps_a_deleted_one_is_told_in_an_event) {
  Make(true, true);
  Refuse("");
  EXPECT_FALSE(Reconcile()) << "the queue must try again";
  EXPECT_FALSE(Reconcile());
  EXPECT_THAT(events_api_.Events(),
              ElementsAre(AllOf(StartsWith("DeletionRefused: "), HasSubstr("house-rules"), HasSubstr(api::kFinalizer))));
}

}  // namespace
}  // namespace cd::controller
