// The IMEXNode as an object: made, lost and made anew.
#include <gmock/gmock.h>

#include "src/plugin/node_reporter_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::ElementsAre;

TEST_F(NodeReporterTest, missing_object_is_created_with_the_node_as_owner_and_reported) {
  auto instance = StartPublisher();
  const auto node = Stored();
  ASSERT_EQ(node.meta.owners.size(), 1u);
  EXPECT_EQ(node.meta.owners[0].uid, kOwner.uid);
  EXPECT_EQ(node.status.boot_id, "boot-1");
  EXPECT_EQ(node.status.fabric, api::FabricState::kReady);
  EXPECT_THAT(node.status.clique_ids, ElementsAre(kDomain));
  EXPECT_EQ(Writes(), 2);
  EXPECT_TRUE(instance->reporter.UpToDate());
}

TEST_F(NodeReporterTest, first_report_of_a_new_object_says_what_the_checkpoint_holds) {
  auto instance = Start();
  Hold(*instance, 1);
  instance->reporter.BecomePublisher(OwnedBy(kOwner));
  executor.RunPosted();
  EXPECT_THAT(Stored().status.channels, ElementsAre(red));
  EXPECT_EQ(api.Count("patch imexnodes/status"), 1);
}

// The absence was seen while a write was under way, and the read that is to tell what holds fails.
TEST_F(NodeReporterTest, object_gone_is_created_anew_although_the_read_after_its_absence_fails) {
  auto instance = StartPublisher();
  api.answer_delay = Duration(1'000);
  instance->reporter.SetDaemon({"10.0.0.1", "i1", kDomainUid, 3, api::DaemonState::kReady, {}});
  executor.RunPosted();
  api.Remove(api::kImexNodes, {"", kNode});
  FailReads();
  executor.Advance(Duration(2'500));
  api.fault = nullptr;
  executor.Advance(Duration(20'000));
  EXPECT_EQ(Stored().status.boot_id, "boot-1");
  EXPECT_TRUE(instance->reporter.UpToDate());
}

TEST_F(NodeReporterTest, deleted_object_is_created_and_reported_anew) {
  auto instance = StartPublisher();
  Hold(*instance, 1);
  api.Remove(api::kImexNodes, {"", kNode});
  executor.RunPosted();
  EXPECT_THAT(Stored().status.channels, ElementsAre(red));
}

TEST_F(NodeReporterTest, object_gone_with_its_node_waits_for_the_node_to_be_there_again) {
  auto instance = Start();
  std::vector<OnOwner> asked;
  instance->reporter.BecomePublisher([&](OnOwner done) { asked.push_back(std::move(done)); });
  executor.Advance(Duration(60'000));
  EXPECT_EQ(api.Find(api::kImexNodes, {"", kNode}), nullptr) << "the garbage collector would take it again, for ever";
  ASSERT_EQ(asked.size(), 1u);
  asked[0](kOwner);
  executor.RunPosted();
  EXPECT_EQ(Stored().status.fabric, api::FabricState::kReady);
  EXPECT_EQ(api.Count("get imexnodes"), 1) << "that it was absent before is no news";
}

// Found by simulation: the watch was behind, and showed the object once more before it showed its deletion.
TEST_F(NodeReporterTest, object_that_came_and_went_while_the_node_was_read_is_created) {
  auto instance = Start();
  std::vector<OnOwner> asked;
  instance->reporter.BecomePublisher([&](OnOwner done) { asked.push_back(std::move(done)); });
  executor.RunPosted();
  api::ImexNode late;
  late.meta.name = kNode;
  api.Put(api::kImexNodes, api::EncodeImexNode(late));
  executor.RunPosted();
  api.Remove(api::kImexNodes, {"", kNode});
  executor.RunPosted();
  ASSERT_EQ(asked.size(), 1u);
  asked[0](kOwner);
  executor.RunPosted();
  EXPECT_EQ(api.Count("create imexnodes"), 1);
  EXPECT_EQ(Stored().status.fabric, api::FabricState::kReady);
}

TEST_F(NodeReporterTest, object_that_somebody_made_while_the_node_was_read_is_not_created) {
  auto instance = Start();
  std::vector<OnOwner> asked;
  instance->reporter.BecomePublisher([&](OnOwner done) { asked.push_back(std::move(done)); });
  executor.RunPosted();
  ASSERT_EQ(asked.size(), 1u);
  api::ImexNode made;
  made.meta.name = kNode;
  api.Put(api::kImexNodes, api::EncodeImexNode(made));
  executor.RunPosted();
  asked[0](kOwner);
  executor.RunPosted();
  EXPECT_EQ(Stored().status.fabric, api::FabricState::kReady);
  EXPECT_EQ(api.Count("create imexnodes"), 0);
}

TEST_F(NodeReporterTest, object_that_came_and_went_unseen_by_the_watch_is_created_anew) {
  auto instance = Start();
  api.watches_deaf = true;
  instance->reporter.BecomePublisher(OwnedBy(kOwner));
  executor.RunPosted();
  Hold(*instance, 1);
  api.Remove(api::kImexNodes, {"", kNode});
  executor.RunPosted();
  api.watches_deaf = false;
  ASSERT_EQ(Stored().meta.uid, "");
  api.ExpireWatches();
  executor.RunPosted();
  EXPECT_THAT(Stored().status.channels, ElementsAre(red));
}

}  // namespace
}  // namespace cd::plugin
