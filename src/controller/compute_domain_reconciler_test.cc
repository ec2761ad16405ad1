// A ComputeDomain whose template's name is taken, or whose objects an admission policy does not let us write.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "src/api/imex_node.h"
#include "src/controller/reconcilers_fixture.h"
#include "src/domain/testing.h"

namespace cd::controller {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

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
