#include "src/controller/decide_compute_domain.h"

#include <gtest/gtest.h>

#include "src/domain/testing.h"

namespace cd::controller {
namespace {

using namespace domain::testing;  // NOLINT

// red with finalizer and template, no pods, no status yet; tests spoil it.
struct CdWorld {
  api::ComputeDomain cd = Red();
  ComputeDomainSnapshot snapshot;

  CdWorld() {
    snapshot.claim_template = {true, true, "t-uid", ""};
    snapshot.now = "2026-11-30T18:00:00Z";
  }
  ComputeDomainDecision Decide() {
    snapshot.cd = std::make_shared<const api::ComputeDomain>(cd);
    return DecideComputeDomain(snapshot);
  }
  // The status the world deserves is written.
  void Settle() { cd.status = *Decide().status; }
  void Pod(const std::string& node, int index) {
    snapshot.nodes.push_back(node);
    snapshot.reports.push_back(All({Assigned(node, index)})[0]);
    api::ImexDomain domain = Domain();
    for (std::size_t i = 0; i < snapshot.nodes.size(); ++i)
      domain.members.push_back(Member(static_cast<int>(i), snapshot.nodes[i]));
    domain.channels = {Lease(5, kRed)};
    snapshot.domains[kClique] = std::make_shared<const api::ImexDomain>(domain);
  }
};

TEST(DecideComputeDomainTest, new_domain_gets_finalizer_template_and_status_at_once) {
  CdWorld world;
  world.cd.meta.finalizers.clear();
  world.snapshot.claim_template = {};
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.add_finalizer);
  EXPECT_TRUE(decision.create_template);
  EXPECT_TRUE(decision.status);
}

TEST(DecideComputeDomainTest, settled_domain_needs_nothing) {
  CdWorld world;
  world.Settle();
  const auto decision = world.Decide();
  EXPECT_FALSE(decision.add_finalizer || decision.create_template || decision.status || decision.status_due || decision.differs);
}

TEST(DecideComputeDomainTest, foreign_finalizers_do_not_count_as_ours) {
  CdWorld world;
  world.cd.meta.finalizers = {"somebody/else"};
  EXPECT_TRUE(world.Decide().add_finalizer);
}

TEST(DecideComputeDomainTest, spec_that_is_not_served_gets_no_template) {
  CdWorld world;
  world.cd.imex = api::ImexConfig{};
  world.snapshot.claim_template = {};
  EXPECT_FALSE(world.Decide().create_template);
  EXPECT_EQ(world.Decide().status->conditions.at(0).status, "False");
}

TEST(DecideComputeDomainTest, template_that_the_api_server_refuses_is_told_and_tried_again) {
  CdWorld world;
  world.snapshot.claim_template = {};
  world.snapshot.claim_template.refusal = "exceeded quota: q";
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.create_template);
  ASSERT_TRUE(decision.status);
  EXPECT_EQ(decision.status->conditions.at(0).reason, "TemplateRefused");
  EXPECT_NE(decision.status->conditions.at(0).message.find("exceeded quota: q"), std::string::npos);
}

TEST(DecideComputeDomainTest, foreign_template_is_named_and_neither_made_nor_deleted) {
  CdWorld world;
  world.snapshot.claim_template = {true, false, "x", "Job team/train"};
  auto decision = world.Decide();
  EXPECT_FALSE(decision.create_template);
  EXPECT_NE(decision.status->conditions.at(0).message.find("Job team/train"), std::string::npos);
  world.cd.meta.deleting = true;
  decision = world.Decide();
  EXPECT_FALSE(decision.delete_template);
  EXPECT_TRUE(decision.remove_finalizer);
}

TEST(DecideComputeDomainTest, pods_that_come_together_are_one_write) {
  CdWorld world;
  world.Settle();
  world.Pod("a", 0);
  world.snapshot.since_write = Duration{60'000};
  auto decision = world.Decide();
  EXPECT_FALSE(decision.status);
  EXPECT_EQ(decision.status_due, Duration{300});
  world.snapshot.since_change = Duration{300};
  world.Pod("b", 1);
  decision = world.Decide();
  ASSERT_TRUE(decision.status);
  EXPECT_EQ(decision.status->ready_nodes, 2);
}

TEST(DecideComputeDomainTest, writes_are_two_seconds_apart) {
  CdWorld world;
  world.Settle();
  world.Pod("a", 0);
  world.snapshot.since_change = Duration{300};
  world.snapshot.since_write = Duration{500};
  EXPECT_EQ(world.Decide().status_due, Duration{1'500});
  world.snapshot.since_write = Duration{2'000};
  EXPECT_TRUE(world.Decide().status);
}

TEST(DecideComputeDomainTest, ending_pods_are_gathered_longer) {
  CdWorld world;
  world.Pod("a", 0);
  world.Settle();
  world.snapshot.nodes.clear();
  world.snapshot.since_write = Duration{60'000};
  world.snapshot.since_change = Duration{500};
  EXPECT_EQ(world.Decide().status_due, Duration{2'500});
}

TEST(DecideComputeDomainTest, acceptance_holds_nothing_back) {
  CdWorld world;
  EXPECT_FALSE(world.Decide().counts);
  world.Settle();
  world.Pod("a", 0);
  world.snapshot.since_change = Duration{300};
  EXPECT_TRUE(world.Decide().status);
  EXPECT_TRUE(world.Decide().counts);
}

TEST(DecideComputeDomainTest, deletion_drains_first_and_writes_no_status) {
  CdWorld world;
  world.Pod("a", 0);
  world.cd.meta.deleting = true;
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.delete_template);
  EXPECT_EQ(decision.drain, std::vector<std::string>{kClique});
  EXPECT_TRUE(decision.remove_finalizer);
  EXPECT_FALSE(decision.status || decision.status_due || decision.create_template || decision.add_finalizer);
}

TEST(DecideComputeDomainTest, deletion_without_our_finalizer_is_not_ours) {
  CdWorld world;
  world.cd.meta.deleting = true;
  world.cd.meta.finalizers = {"somebody/else"};
  const auto decision = world.Decide();
  EXPECT_FALSE(decision.delete_template || decision.remove_finalizer);
}

}  // namespace
}  // namespace cd::controller
