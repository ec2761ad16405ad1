#include "src/domain/isolation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/domain/testing.h"

namespace cd::domain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kBlue;
using testing::kClique;
using testing::kRed;

// Red has isolationMode Domain, blue has Channel; node n.
struct TwoModes {
  api::ComputeDomain red = testing::Red();
  KnownDomains known;
  std::vector<Demand> demands;
  api::ImexNode node = testing::Node("n");
  const std::string exclusive = api::DomainName({kClique, kRed});

  TwoModes() {
    red.isolation_mode = api::IsolationMode::kDomain;
    api::ComputeDomain blue = testing::Red();
    blue.meta.uid = kBlue;
    blue.meta.name = "blue";
    known.cached[kBlue] = ViewOf(blue);
    node.status.driver_version = "580.105.08";
  }
  void Demands(const std::string& uid, int slots = 1) {
    demands.push_back({"n", "team", "claim", {uid, {}}, "claim-uid", slots, slots == 32});
  }
  std::string Wanted(const std::string& current) {
    known.cached[kRed] = ViewOf(red);
    return WantedDomain(kClique, current, node, demands, known);
  }
  std::optional<api::Refusal> Refusal(const Demand& demand) const { return RefuseExclusive(demand, known.cached.at(kRed), node); }
};

TEST(WantedDomainTest, a_node_without_claims_belongs_in_the_shared_domain) {
  TwoModes world;
  EXPECT_EQ(world.Wanted(""), kClique);
  EXPECT_EQ(world.Wanted(world.exclusive), kClique);
}

TEST(WantedDomainTest, a_claim_for_the_whole_node_makes_it_exclusive) {
  TwoModes world;
  world.Demands(kRed, 32);
  EXPECT_EQ(world.Wanted(kClique), world.exclusive);
}

TEST(WantedDomainTest, a_claim_for_part_of_the_node_does_not) {
  TwoModes world;
  world.Demands(kRed, 31);
  EXPECT_EQ(world.Wanted(kClique), kClique);
}

TEST(WantedDomainTest, whoever_is_there_first_keeps_the_node_whatever_the_allocator_did) {
  TwoModes world;
  world.Demands(kRed, 32);
  world.Demands(kBlue);
  EXPECT_EQ(world.Wanted(kClique), kClique);
  EXPECT_EQ(world.Wanted(world.exclusive), world.exclusive);
}

TEST(WantedDomainTest, a_deleted_compute_domain_asks_for_nothing) {
  TwoModes world;
  world.Demands(kRed, 32);
  world.known.deleted = {kRed};
  EXPECT_EQ(world.Wanted(world.exclusive), kClique);
}

TEST(WantedDomainTest, a_compute_domain_that_is_not_served_moves_no_node) {
  TwoModes world;
  world.Demands(kRed, 32);
  world.red.imex = api::ImexConfig{"FULL", {}, {}};
  EXPECT_EQ(world.Wanted(kClique), kClique);
}

TEST(WantedDomainTest, an_option_the_nodes_driver_does_not_know_moves_no_node) {
  TwoModes world;
  world.Demands(kRed, 32);
  world.red.imex = api::ImexConfig{"RECOVERY", {}, {}};
  world.node.status.driver_version = "565.57.01";
  EXPECT_EQ(world.Wanted(kClique), kClique);
  const auto refusal = world.Refusal(world.demands[0]);
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->message, AllOf(HasSubstr("spec.imex"), HasSubstr("waitForQuorum: RECOVERY"), HasSubstr("565.57.01"),
                                      HasSubstr("upgrade the driver")));
}

TEST(WantedDomainTest, a_compute_domain_bound_to_another_partition_moves_no_node) {
  TwoModes world;
  world.Demands(kRed, 32);
  world.red.partition_policy = api::PartitionPolicy::kSingle;
  EXPECT_EQ(world.Wanted(kClique), kClique) << "the partition is chosen first";
  EXPECT_EQ(world.Wanted(world.exclusive), world.exclusive) << "one that was given up may be chosen again";
  world.red.status.partition = "another.clique";
  EXPECT_EQ(world.Wanted(kClique), kClique);
  world.red.status.partition = kClique;
  EXPECT_EQ(world.Wanted(kClique), world.exclusive);
}

TEST(RefuseExclusiveTest, options_of_nvidia_imex_ask_nothing_of_a_node_without_fabric) {
  TwoModes world;
  world.node = testing::WithoutFabric("n");
  world.node.status.driver_version = "565.57.01";
  world.red.imex = api::ImexConfig{"RECOVERY", {}, {}};
  world.Demands(kRed, 32);
  world.Demands(kRed, 1);
  world.Wanted("");
  EXPECT_FALSE(world.Refusal(world.demands[0]));
  EXPECT_EQ(world.Refusal(world.demands[1])->reason, "WholeNodeNeeded");
}

TEST(RefuseExclusiveTest, a_part_of_the_node_is_refused_by_number) {
  TwoModes world;
  world.Demands(kRed, 1);
  world.Wanted("");
  const auto refusal = world.Refusal(world.demands[0]);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, "WholeNodeNeeded");
  EXPECT_THAT(refusal->message, AllOf(HasSubstr("isolationMode Domain"), HasSubstr("has 1"), HasSubstr("ResourceClaimTemplate")));
}

TEST(RefuseInDomainTest, a_node_on_its_way_refuses_nobody) {
  TwoModes world;
  world.Demands(kRed, 32);
  world.Wanted("");
  EXPECT_FALSE(RefuseInDomain(world.demands[0], world.known.cached.at(kRed), world.node, testing::Domain(), false));
}

TEST(RefuseInDomainTest, a_pod_in_another_partition_is_refused_where_the_node_is) {
  TwoModes world;
  world.red.partition_policy = api::PartitionPolicy::kSingle;
  world.Demands(kRed, 32);
  world.Wanted("");
  EXPECT_FALSE(RefuseInDomain(world.demands[0], world.known.cached.at(kRed), world.node, testing::Domain(), true))
      << "until one is chosen";
  world.red.status.partition = "another.clique";
  world.Wanted("");
  const auto refusal = RefuseInDomain(world.demands[0], world.known.cached.at(kRed), world.node, testing::Domain(), true);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, "OtherPartition");
}

TEST(RefuseInDomainTest, both_kinds_are_told_whose_the_node_is) {
  TwoModes world;
  world.Demands(kRed, 32);
  world.Demands(kBlue);
  world.Wanted("");
  const auto shared = RefuseInDomain(world.demands[0], world.known.cached.at(kRed), world.node, testing::Domain(), true);
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->reason, "NodeIsShared");
  EXPECT_THAT(shared->message, HasSubstr("it needs the node for itself"));
  const api::ImexDomain exclusive = NewDomain(world.exclusive, world.known.cached, {});
  const auto alone = RefuseInDomain(world.demands[1], world.known.cached.at(kBlue), world.node, exclusive, true);
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->reason, "NodeIsExclusive");
  EXPECT_THAT(alone->message, HasSubstr("nobody else runs there while its pod does"));
  EXPECT_THAT(alone->message, HasSubstr("team/red"));
}

TEST(NewDomainTest, an_exclusive_domain_has_its_owners_wishes_over_the_clusters) {
  TwoModes world;
  world.red.allocation_mode = api::AllocationMode::kAll;
  world.red.imex = api::ImexConfig{"", 60, {}};
  world.Wanted("");
  const api::ImexConfig cluster{"RECOVERY", -1, 2};
  const api::ImexDomain exclusive = NewDomain(world.exclusive, world.known.cached, cluster);
  EXPECT_EQ(exclusive.imex_config, (api::ImexConfig{"RECOVERY", 60, 2}));
  EXPECT_EQ(exclusive.allocation_mode, api::AllocationMode::kAll);
  const api::ImexDomain shared = NewDomain(kClique, world.known.cached, cluster);
  EXPECT_EQ(shared.imex_config, cluster);
  EXPECT_FALSE(shared.compute_domain);
}

}  // namespace
}  // namespace cd::domain
