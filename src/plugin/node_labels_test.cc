// Labels of the Node: ours, and those that are not ours.
#include "src/plugin/node_labels.h"

#include <gmock/gmock.h>

#include "src/plugin/prepare_fixture.h"

namespace cd::plugin {
namespace {

class NodeLabelsTest : public ::testing::Test {
 protected:
  void Put(nlohmann::json labels) { api.Put(api::kNodes, {{"metadata", {{"name", kNode}, {"labels", std::move(labels)}}}}); }
  void Read() {
    labels.Follow([this](const api::OwnerReference& owner) {
      found = owner;
      ++told;
    });
    executor.RunPosted();
  }
  nlohmann::json Stored() { return (*api.Find(api::kNodes, {"", kNode}))["metadata"]["labels"]; }
  int Writes() { return api.Count("patch nodes"); }

  ManualExecutor executor;
  FakeApi api{executor};
  NodeLabels labels{executor, api, kNode, 1};
  std::optional<api::OwnerReference> found;
  int told = 0;
};

TEST_F(NodeLabelsTest, node_of_a_clique_gets_both_labels_in_one_write) {
  Put({{"zone", "a"}});
  Read();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, "Node");
  EXPECT_EQ(found->uid, (*api.Find(api::kNodes, {"", kNode}))["metadata"]["uid"]);
  labels.Set({kDomain, true});
  executor.RunPosted();
  EXPECT_EQ(Stored()[api::kCliqueLabel], kDomain);
  EXPECT_EQ(Stored()[api::kDaemonNodeLabel], "true");
  EXPECT_EQ(Writes(), 1);
}

TEST_F(NodeLabelsTest, labels_that_are_right_cost_no_write) {
  Put({{api::kCliqueLabel, kDomain}, {api::kDaemonNodeLabel, "true"}});
  Read();
  labels.Set({kDomain, true});
  executor.RunPosted();
  EXPECT_EQ(Writes(), 0);
}

TEST_F(NodeLabelsTest, clique_label_of_somebody_else_is_left_alone) {
  Put({{api::kCliqueLabel, "gfd-says-so"}});
  api.fault = [](const kube::ApiRequest& request) -> std::optional<Error> {
    if (request.verb != kube::Verb::kPatch || request.body.find(api::kCliqueLabel) == std::string::npos) return std::nullopt;
    return Error{ErrorCode::kConflict, "owned by gpu-feature-discovery", std::nullopt};
  };
  Read();
  labels.Set({kDomain, true});
  executor.RunPosted();
  EXPECT_EQ(Stored()[api::kCliqueLabel], "gfd-says-so");
  EXPECT_EQ(Stored()[api::kDaemonNodeLabel], "true");
  EXPECT_EQ(Writes(), 2);
  executor.Advance(Duration(60'000));
  EXPECT_EQ(Writes(), 2);
}

TEST_F(NodeLabelsTest, node_that_cannot_be_read_yet_is_read_again) {
  api.fault = [](const kube::ApiRequest&) { return std::optional<Error>(Error{ErrorCode::kUnavailable, "down", std::nullopt}); };
  Put({});
  Read();
  EXPECT_FALSE(found);
  api.fault = nullptr;
  executor.Advance(Duration(60'000));
  EXPECT_TRUE(found);
}

TEST_F(NodeLabelsTest, labels_that_somebody_removes_come_back) {
  Put({});
  Read();
  labels.Set({kDomain, true});
  executor.RunPosted();
  Put({{"zone", "a"}});
  executor.RunPosted();
  EXPECT_EQ(Stored()[api::kCliqueLabel], kDomain);
  EXPECT_EQ(Stored()[api::kDaemonNodeLabel], "true");
  EXPECT_EQ(Writes(), 2);
  EXPECT_EQ(told, 1);
}

TEST_F(NodeLabelsTest, changes_of_the_node_that_are_not_ours_cost_no_write) {
  Put({});
  Read();
  labels.Set({kDomain, true});
  executor.RunPosted();
  Put({{api::kCliqueLabel, kDomain}, {api::kDaemonNodeLabel, "true"}, {"zone", "b"}});
  executor.RunPosted();
  EXPECT_EQ(Writes(), 1);
}

TEST_F(NodeLabelsTest, clique_label_is_set_when_its_owner_lets_it_go) {
  Put({{api::kCliqueLabel, "gfd-says-so"}});
  api.fault = [](const kube::ApiRequest& request) -> std::optional<Error> {
    if (request.verb != kube::Verb::kPatch || request.body.find(api::kCliqueLabel) == std::string::npos) return std::nullopt;
    return Error{ErrorCode::kConflict, "owned by gpu-feature-discovery", std::nullopt};
  };
  Read();
  labels.Set({kDomain, true});
  executor.RunPosted();
  api.fault = nullptr;
  Put({{api::kDaemonNodeLabel, "true"}});
  executor.RunPosted();
  EXPECT_EQ(Stored()[api::kCliqueLabel], kDomain);
}

TEST_F(NodeLabelsTest, node_made_anew_is_told_and_labelled) {
  Put({});
  Read();
  labels.Set({kDomain, true});
  executor.RunPosted();
  const std::string first = found->uid;
  api.Remove(api::kNodes, {"", kNode});
  executor.RunPosted();
  EXPECT_EQ(told, 1);
  Put({});
  executor.RunPosted();
  EXPECT_EQ(told, 2);
  EXPECT_NE(found->uid, first);
  EXPECT_EQ(Stored()[api::kDaemonNodeLabel], "true");
}

}  // namespace
}  // namespace cd::plugin
