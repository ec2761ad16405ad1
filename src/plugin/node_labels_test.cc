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
    labels.ReadNode([this](const api::OwnerReference& owner) { found = owner; });
    executor.RunPosted();
  }
  nlohmann::json Stored() { return (*api.Find(api::kNodes, {"", kNode}))["metadata"]["labels"]; }
  int Writes() { return api.Count("patch nodes"); }

  ManualExecutor executor;
  FakeApi api{executor};
  NodeLabels labels{executor, api, kNode};
  std::optional<api::OwnerReference> found;
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
  executor.Advance(Duration(1'000));
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace cd::plugin
