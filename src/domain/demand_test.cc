#include "src/domain/demand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "src/domain/testing.h"

namespace cd::domain {
namespace {

using namespace testing;  // NOLINT
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kRequired = api::FabricPolicy::kRequired;

Demand Wish(const std::string& uid, api::AllocationMode mode = api::AllocationMode::kSingle) {
  return {"a", "team", "claim", {uid, mode}};
}

KnownDomains Known(const std::function<void(api::ComputeDomain&)>& change = {}) {
  api::ComputeDomain cd = Red();
  if (change) change(cd);
  KnownDomains known;
  known.cached[kRed] = ViewOf(cd);
  return known;
}

TEST(JudgeTest, claim_of_its_own_domain_is_served) {
  EXPECT_EQ(Judge(Wish(kRed), Known()).verdict, Verdict::kServe);
}

TEST(JudgeTest, unknown_domain_is_looked_up_before_it_is_refused) {
  KnownDomains known;
  EXPECT_EQ(Judge(Wish(kRed), known).verdict, Verdict::kLookUp);
  known.verified[kRed] = Liveness::kGone;
  const auto judgement = Judge(Wish(kRed), known);
  EXPECT_EQ(judgement.verdict, Verdict::kRefuse);
  EXPECT_EQ(judgement.refusal.reason, "UnknownComputeDomain");
  EXPECT_THAT(judgement.refusal.message, AllOf(HasSubstr("domainID"), HasSubstr(kRed), HasSubstr("namespace team")));
}

TEST(JudgeTest, domain_that_lives_but_is_not_cached_yet_is_not_refused) {
  KnownDomains known;
  known.verified[kRed] = Liveness::kLive;
  EXPECT_EQ(Judge(Wish(kRed), known).verdict, Verdict::kIgnore);
}

TEST(JudgeTest, domain_of_another_namespace_is_refused_naming_both) {
  const auto judgement = Judge(Wish(kRed), Known([](auto& cd) { cd.meta.ns = "rivals"; }));
  EXPECT_EQ(judgement.verdict, Verdict::kRefuse);
  EXPECT_EQ(judgement.refusal.reason, "OtherNamespace");
  EXPECT_THAT(judgement.refusal.message,
              AllOf(HasSubstr("rivals"), HasSubstr("team"), HasSubstr("serves its own namespace only: create one here")));
}

TEST(JudgeTest, mode_that_is_not_the_domains_is_refused_naming_both) {
  const auto judgement = Judge(Wish(kRed, api::AllocationMode::kAll), Known());
  EXPECT_EQ(judgement.refusal.reason, "AllocationModeMismatch");
  EXPECT_THAT(judgement.refusal.message, AllOf(HasSubstr("says All"), HasSubstr("allocationMode Single")));
}

TEST(JudgeTest, domain_that_is_not_accepted_is_refused_with_the_reason) {
  const auto judgement = Judge(Wish(kRed), Known([](auto& cd) { cd.imex = api::ImexConfig{}; }));
  EXPECT_EQ(judgement.refusal.reason, "NotAccepted");
  EXPECT_THAT(judgement.refusal.message, AllOf(HasSubstr("red is not accepted: "), HasSubstr("spec.imex")));
}

TEST(JudgeTest, claims_of_a_deleted_domain_are_left_alone) {
  EXPECT_EQ(Judge(Wish(kRed), Known([](auto& cd) { cd.meta.deleting = true; })).verdict, Verdict::kIgnore);
  KnownDomains known;
  known.deleted = {kRed};
  EXPECT_EQ(Judge(Wish(kRed), known).verdict, Verdict::kIgnore);
}

TEST(JudgeTest, live_answer_beats_the_cache) {
  KnownDomains known = Known();
  known.verified[kRed] = Liveness::kGone;
  EXPECT_EQ(Judge(Wish(kRed), known).verdict, Verdict::kIgnore);
}

struct NodeCase {
  const char* name;
  api::FabricState fabric;
  const char* reason;
  const char* says;
};

class NodeRefusalTest : public ::testing::TestWithParam<NodeCase> {};

TEST_P(NodeRefusalTest, says_what_is_wrong_with_the_node) {
  api::ImexNode node = Node("a");
  node.status.fabric = GetParam().fabric;
  node.status.fabric_message = "GPU 0 says so";
  const auto refusal = RefuseForNode(Wish(kRed), node, kRequired);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, GetParam().reason);
  EXPECT_THAT(refusal->message, AllOf(HasSubstr("node a"), HasSubstr("GPU 0 says so"), HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, NodeRefusalTest,
    ::testing::Values(NodeCase{"none", api::FabricState::kNone, "NoFabric", "has no GPU on a multi-node NVLink fabric"},
                      NodeCase{"forming", api::FabricState::kForming, "FabricForming", "is registering with the NVLink fabric"},
                      NodeCase{"degraded", api::FabricState::kDegraded, "FabricDegraded",
                               "is attached to the NVLink fabric, but not healthy"},
                      NodeCase{"mixed", api::FabricState::kMixed, "MixedCliques", "are in different cliques"}),
    [](const auto& info) { return std::string(info.param.name); });

// Else what the server stores would differ from what is wanted, and be written for ever.
TEST(NodeRefusalTest, long_message_of_a_node_is_cut_between_characters) {
  for (const std::string start : {"", "x"}) {
    api::ImexNode node = Node("a");
    node.status.fabric = api::FabricState::kDegraded;
    node.status.fabric_message = start;
    for (int i = 0; i < 1'200; ++i) node.status.fabric_message += "é";
    const auto refusal = RefuseForNode(Wish(kRed), node, kRequired);
    ASSERT_TRUE(refusal);
    EXPECT_LE(refusal->message.size(), 2'000U);
    EXPECT_TRUE(refusal->message.ends_with("é"));
  }
}

TEST(NodeRefusalTest, what_has_run_out_is_named_with_its_number) {
  EXPECT_THAT(RefuseNoChannel(Wish(kRed), kClique).message, HasSubstr(std::string("all channels of clique ") + kClique));
  EXPECT_THAT(RefuseNoSlot(Wish(kRed), kClique, 24).message,
              AllOf(HasSubstr("node a has no slot in the IMEX domain of clique"), HasSubstr("all 24")));
}

TEST(NodeRefusalTest, processes_of_an_ended_domain_are_named_with_their_channel) {
  const auto refusal = RefuseForeignChannels(Wish(kRed), Holding(Node("a"), 7, kBlue));
  EXPECT_EQ(refusal.reason, "HoldsForeignChannels");
  EXPECT_THAT(refusal.message,
              AllOf(HasSubstr("still has processes of ComputeDomains that ended here (channel 7"), HasSubstr(kBlue)));
}

TEST(NodeRefusalTest, other_partition_is_named_beside_the_one_that_was_chosen) {
  ComputeDomainView view = Known([](auto& cd) { cd.status.partition = "chosen.1"; }).cached.at(kRed);
  const auto refusal = RefuseOtherPartition(Wish(kRed), view, "other.2");
  EXPECT_THAT(refusal.message, AllOf(HasSubstr("has spec.partitionPolicy Single and its pods run in NVLink partition chosen.1"),
                                     HasSubstr("other.2")));
}

TEST(NodeRefusalTest, healthy_or_silent_node_is_not_refused) {
  EXPECT_EQ(RefuseForNode(Wish(kRed), Node("a"), kRequired), std::nullopt);
  api::ImexNode silent;
  silent.meta.name = "a";
  EXPECT_EQ(RefuseForNode(Wish(kRed), silent, kRequired), std::nullopt);
}

TEST(NodeRefusalTest, optional_fabric_is_content_with_none_but_not_with_silence) {
  EXPECT_EQ(RefuseForNode(Wish(kRed), WithoutFabric("a"), api::FabricPolicy::kOptional), std::nullopt);
  api::ImexNode silent = WithoutFabric("a");
  silent.status.driver_version.clear();
  silent.status.fabric_message = "no NVIDIA driver";
  const auto refusal = RefuseForNode(Wish(kRed), silent, api::FabricPolicy::kOptional);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, "FabricUnknown");
  EXPECT_THAT(refusal->message, AllOf(HasSubstr("node a"), HasSubstr("is not known (no NVIDIA driver)"), HasSubstr("repair")));
  api::ImexNode sick = Node("a");
  sick.status.fabric = api::FabricState::kDegraded;
  EXPECT_EQ(RefuseForNode(Wish(kRed), sick, api::FabricPolicy::kOptional)->reason, "FabricDegraded");
}

TEST(TidyTest, one_refusal_for_each_node_and_domain) {
  const auto tidy = Tidy({{"b", kRed, "R", "1"}, {"a", kRed, "R", "2"}, {"b", kRed, "R", "3"}});
  ASSERT_EQ(tidy.size(), 2U);
  EXPECT_EQ(tidy[0].node, "a");
  EXPECT_EQ(tidy[1].message, "1");
}

}  // namespace
}  // namespace cd::domain
