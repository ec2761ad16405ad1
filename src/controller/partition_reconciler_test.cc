// partitionPolicy Single: what is read before another partition is chosen.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "src/api/imex_node.h"
#include "src/controller/reconcilers_fixture.h"
#include "src/domain/testing.h"

namespace cd::controller {
namespace {

using domain::testing::kClique;
using nlohmann::json;

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

}  // namespace
}  // namespace cd::controller
