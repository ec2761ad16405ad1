// The Node as owner, and its labels: ours, and those that are not ours.
#include "src/plugin/own_node.h"

#include <gmock/gmock.h>

#include "src/plugin/prepare_fixture.h"

namespace cd::plugin {
namespace {

class OwnNodeTest : public ::testing::Test {
 protected:
  void Put(nlohmann::json labels) { api.Put(api::kNodes, {{"metadata", {{"name", kNode}, {"labels", std::move(labels)}}}}); }
  void Read() {
    node.Read([this](const api::OwnerReference& owner) { owners.push_back(owner); });
    executor.RunPosted();
  }
  void Check() {
    node.Check();
    executor.RunPosted();
  }
  void Set(const std::string& clique, bool daemon) {
    node.SetLabels(clique, daemon);
    executor.RunPosted();
  }
  api::ObjectMeta Stored() { return *api::DecodeMeta(*api.Find(api::kNodes, {"", kNode})); }
  std::string Label(const char* name) { return Stored().labels.contains(name) ? Stored().labels.at(name) : ""; }
  int Reads() { return api.Count("get nodes"); }
  int Writes() { return api.Count("patch nodes"); }

  ManualExecutor executor;
  FakeApi api{executor};
  OwnNode node{executor, api, kNode, 1};
  std::vector<api::OwnerReference> owners;
};

TEST_F(OwnNodeTest, owner_is_the_node_that_is_there_now) {
  Put({});
  Read();
  ASSERT_EQ(owners.size(), 1u);
  EXPECT_EQ(owners[0].kind, "Node");
  EXPECT_EQ(owners[0].uid, Stored().uid);
  api.Remove(api::kNodes, {"", kNode});
  Put({});
  Read();
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_NE(owners[1].uid, owners[0].uid);
}

TEST_F(OwnNodeTest, those_who_ask_together_share_one_read) {
  Put({});
  for (int i = 0; i < 3; ++i) node.Read([this](const api::OwnerReference& owner) { owners.push_back(owner); });
  executor.RunPosted();
  EXPECT_EQ(owners.size(), 3u);
  EXPECT_LE(Reads(), 2);
}

TEST_F(OwnNodeTest, read_that_began_before_the_question_does_not_answer_it) {
  Put({});
  api.answer_delay = Duration(100);
  Check();
  api.Remove(api::kNodes, {"", kNode});
  Put({});
  Read();
  executor.Advance(Duration(1'000));
  ASSERT_EQ(owners.size(), 1u);
  EXPECT_EQ(owners[0].uid, Stored().uid);
}

TEST_F(OwnNodeTest, nobody_owns_anything_before_there_is_a_node) {
  Read();
  executor.Advance(Duration(600'000));
  EXPECT_TRUE(owners.empty());
  EXPECT_LT(Reads(), 40) << "ever more seldom";
  Put({});
  executor.Advance(Duration(120'000));
  EXPECT_EQ(owners.size(), 1u);
}

TEST_F(OwnNodeTest, node_that_cannot_be_read_yet_is_read_again) {
  api.fault = [](const kube::ApiRequest&) { return std::optional<Error>(Error{ErrorCode::kUnavailable, "down", std::nullopt}); };
  Put({});
  Read();
  EXPECT_TRUE(owners.empty());
  api.fault = nullptr;
  executor.Advance(Duration(60'000));
  EXPECT_EQ(owners.size(), 1u);
}

TEST_F(OwnNodeTest, node_of_a_clique_gets_both_labels_in_one_write) {
  Put({{"zone", "a"}});
  Set(kDomain, true);
  EXPECT_EQ(Label(api::kCliqueLabel), kDomain);
  EXPECT_EQ(Label(api::kDaemonNodeLabel), "true");
  EXPECT_EQ(Writes(), 1);
  EXPECT_EQ(Reads(), 1);
}

TEST_F(OwnNodeTest, labels_that_are_right_cost_no_write) {
  Put({{api::kCliqueLabel, kDomain}, {api::kDaemonNodeLabel, "true"}});
  Set(kDomain, true);
  Set(kDomain, true);
  EXPECT_EQ(Writes(), 0);
  EXPECT_EQ(Reads(), 1);
}

TEST_F(OwnNodeTest, clique_label_of_somebody_else_is_left_alone) {
  Put({{api::kCliqueLabel, "gfd-says-so"}});
  Set(kDomain, true);
  EXPECT_EQ(Label(api::kCliqueLabel), "gfd-says-so");
  EXPECT_EQ(Label(api::kDaemonNodeLabel), "true");
  EXPECT_EQ(Writes(), 2);
  executor.Advance(Duration(60'000));
  Check();
  EXPECT_EQ(Writes(), 2);
}

TEST_F(OwnNodeTest, labels_that_somebody_removes_come_back_with_the_next_check) {
  Put({});
  Set(kDomain, true);
  Put({{"zone", "a"}});
  Check();
  EXPECT_EQ(Label(api::kCliqueLabel), kDomain);
  EXPECT_EQ(Label(api::kDaemonNodeLabel), "true");
  EXPECT_EQ(Writes(), 2);
}

TEST_F(OwnNodeTest, clique_label_is_set_when_its_owner_lets_it_go) {
  Put({{api::kCliqueLabel, "gfd-says-so"}});
  Set(kDomain, true);
  Put({{api::kDaemonNodeLabel, "true"}});
  Check();
  EXPECT_EQ(Label(api::kCliqueLabel), kDomain);
}

TEST_F(OwnNodeTest, node_made_anew_is_labelled_when_its_owner_is_asked_for) {
  Put({});
  Set(kDomain, true);
  api.Remove(api::kNodes, {"", kNode});
  Read();
  EXPECT_TRUE(owners.empty());
  Put({});
  executor.Advance(Duration(60'000));
  EXPECT_EQ(owners.size(), 1u);
  EXPECT_EQ(Label(api::kDaemonNodeLabel), "true");
}

TEST_F(OwnNodeTest, daemon_label_that_somebody_else_keeps_is_not_fought_over) {
  Put({{api::kDaemonNodeLabel, "true"}});
  Set(kDomain, false);  // withdraws our word for it; the label stays
  EXPECT_EQ(Label(api::kDaemonNodeLabel), "true");
  Check();
  EXPECT_EQ(Writes(), 1);
}

TEST_F(OwnNodeTest, check_during_a_write_is_not_lost) {
  Put({});
  Set(kDomain, true);
  node.SetLabels("other.1", true);
  node.Check();
  executor.RunPosted();
  EXPECT_EQ(Reads(), 2);
  EXPECT_EQ(Label(api::kCliqueLabel), "other.1");
}

}  // namespace
}  // namespace cd::plugin
