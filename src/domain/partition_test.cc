#include "src/domain/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/domain/testing.h"

namespace cd::domain {
namespace {

using namespace testing;  // NOLINT
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PartitionTest, chosen_one_stays_while_a_pod_is_there) {
  EXPECT_EQ(ChoosePartition("b", {{"a", 5}, {"b", 1}}, {"b"}, {}), "b");
  EXPECT_EQ(ChoosePartition("b", {}, {"b"}, {}), "b") << "and is not forgotten for nothing";
}

TEST(PartitionTest, first_choice_is_where_most_nodes_are) {
  EXPECT_EQ(ChoosePartition("", {{"a", 1}, {"b", 2}, {"c", 2}}, {}, {}), "b");
}

TEST(PartitionTest, moves_when_all_pods_are_elsewhere) {
  EXPECT_EQ(ChoosePartition("a", {{"b", 1}}, {"a"}, {}), "") << "given up first";
  EXPECT_EQ(ChoosePartition("", {{"b", 1}}, {"a"}, {}), "") << "until its lease is drained";
  EXPECT_EQ(ChoosePartition("", {{"b", 1}}, {}, {}), "b");
}

TEST(PartitionTest, pod_that_comes_back_before_that_brings_the_choice_back) {
  EXPECT_EQ(ChoosePartition("", {{"a", 1}, {"b", 5}}, {"a"}, {}), "a");
}

TEST(PartitionTest, pod_that_began_before_the_lease_was_drained_brings_the_choice_back) {
  EXPECT_EQ(ChoosePartition("", {{"a", 1}, {"b", 5}}, {}, {"a"}), "a");
}

TEST(PartitionTest, any_is_served_everywhere) {
  ComputeDomainView view = ViewOf(Red());
  EXPECT_EQ(JudgePartition(view, "a"), PartitionVerdict::kServe);
}

TEST(PartitionTest, single_is_served_in_its_partition_only) {
  ComputeDomainView view = ViewOf(Red());
  view.partition_policy = api::PartitionPolicy::kSingle;
  EXPECT_EQ(JudgePartition(view, "a"), PartitionVerdict::kChoose);
  view.partition = "a";
  EXPECT_EQ(JudgePartition(view, "a"), PartitionVerdict::kServe);
  EXPECT_EQ(JudgePartition(view, "b"), PartitionVerdict::kOther);
}

TEST(PartitionTest, refusal_names_both_cliques_and_remedies) {
  ComputeDomainView view = ViewOf(Red());
  view.partition = "uuid.1";
  const auto refusal = RefuseOtherPartition({"n", "team", "claim", {kRed, {}}}, view, "uuid.2");
  EXPECT_EQ(refusal.reason, "OtherPartition");
  EXPECT_THAT(refusal.message, AllOf(HasSubstr("uuid.1"), HasSubstr("uuid.2"), HasSubstr("partitionPolicy"), HasSubstr("node n"),
                                     HasSubstr("delete")));
}

}  // namespace
}  // namespace cd::domain
