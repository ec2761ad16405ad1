#include "src/domain/maintenance.h"

#include <gtest/gtest.h>

#include "src/domain/testing.h"

namespace cd::domain {
namespace {

using namespace testing;  // NOLINT

const std::string kToken = api::ReplacementToken("former");

// A READY daemon of revision "old" on an idle node; "new" is wanted.
class MaintenanceTest : public ::testing::Test {
 protected:
  MaintenanceTest() {
    node_.status.daemon.revision = "old";
    node_.status.daemon.pod_uid = "former";
  }
  MaintenanceDecision Decide() { return DecideMaintenance({node_, revision_, in_use_, may_begin_}); }
  void Acknowledge() { node_.maintenance = node_.status.maintenance_acknowledged = kToken; }
  void Replace() {
    node_.status.daemon.revision = "new";
    node_.status.daemon.pod_uid = "next";
  }

  api::ImexNode node_ = Assigned("a", 0);
  std::string revision_ = "new";
  bool in_use_ = false;
  bool may_begin_ = true;
};

TEST_F(MaintenanceTest, begins_on_an_idle_node_with_an_outdated_daemon) {
  EXPECT_EQ(Decide().token, kToken);
  EXPECT_EQ(Decide().delete_pod, "") << "not before the plugin's word";
  node_.status.daemon.revision = "";
  EXPECT_EQ(Decide().token, kToken) << "older than revisions";
}

TEST_F(MaintenanceTest, does_not_begin_under_workloads_or_where_one_is_about_to_start) {
  in_use_ = true;
  EXPECT_EQ(Decide().token, "");
  in_use_ = false;
  node_ = Holding(node_, 3, kRed);
  EXPECT_EQ(Decide().token, "") << "processes may hold it";
}

TEST_F(MaintenanceTest, does_not_begin_without_reason) {
  may_begin_ = false;
  EXPECT_EQ(Decide().token, "");
  EXPECT_TRUE(Decide().waits);
  may_begin_ = true;
  EXPECT_FALSE(Decide().waits);
  node_.status.daemon.revision = "new";
  EXPECT_EQ(Decide().token, "");
  node_.status.daemon.revision = "old";
  revision_ = "";
  EXPECT_EQ(Decide().token, "") << "nothing is wanted";
  revision_ = "new";
  node_.status.daemon.pod_uid = "";
  EXPECT_EQ(Decide().token, "") << "nobody knows which pod";
  node_.status.daemon.pod_uid = "former";
  node_.status.daemon.state = api::DaemonState::kAbsent;
  EXPECT_EQ(Decide().token, "") << "the next one is new anyway";
}

TEST_F(MaintenanceTest, pod_is_deleted_once_the_plugin_has_acknowledged) {
  node_.maintenance = kToken;
  EXPECT_EQ(Decide().delete_pod, "");
  node_.status.maintenance_acknowledged = api::ReplacementToken("earlier");
  EXPECT_EQ(Decide().delete_pod, "") << "the word of an earlier time";
  Acknowledge();
  EXPECT_EQ(Decide().delete_pod, "former");
  EXPECT_EQ(Decide().token, kToken);
}

TEST_F(MaintenanceTest, is_never_taken_back_before_the_pod_has_gone) {
  Acknowledge();
  in_use_ = true;
  revision_ = "old";
  may_begin_ = false;
  node_.status.clique_ids.clear();
  EXPECT_EQ(Decide().token, kToken) << "another leader's request to delete may be on its way";
  node_.status.daemon = {};
  EXPECT_EQ(Decide().token, kToken) << "nor while nobody runs: the same pod may come up again";
}

TEST_F(MaintenanceTest, withholds_nothing_from_a_busy_node_before_its_word) {
  node_ = Holding(node_, 3, kRed);
  node_.maintenance = kToken;
  EXPECT_FALSE(api::UnderMaintenance(node_));
  EXPECT_EQ(Decide().token, kToken) << "it waits for the last channel";
  node_.status.channels.clear();
  EXPECT_TRUE(api::UnderMaintenance(node_));
}

TEST_F(MaintenanceTest, ends_when_the_new_daemon_is_ready) {
  Acknowledge();
  Replace();
  node_.status.daemon.state = api::DaemonState::kStarting;
  EXPECT_EQ(Decide().token, kToken);
  EXPECT_EQ(Decide().delete_pod, "");
  node_.status.daemon.state = api::DaemonState::kReady;
  EXPECT_EQ(Decide().token, "");
}

TEST_F(MaintenanceTest, ends_where_there_is_nothing_to_be_ready_for) {
  Acknowledge();
  Replace();
  node_.status.daemon.state = api::DaemonState::kNotReady;
  node_.domain.reset();
  EXPECT_EQ(Decide().token, "");
}

TEST_F(MaintenanceTest, next_one_waits_until_the_plugin_has_taken_its_word_back) {
  Acknowledge();
  Replace();
  node_.maintenance.clear();
  revision_ = "newer";
  EXPECT_EQ(Decide().token, "");
  node_.status.maintenance_acknowledged.clear();
  EXPECT_EQ(Decide().token, api::ReplacementToken("next"));
}

TEST_F(MaintenanceTest, goes_on_after_the_node_object_was_lost) {
  Acknowledge();
  node_.maintenance.clear();
  EXPECT_EQ(Decide().token, kToken);
  EXPECT_EQ(Decide().delete_pod, "former");
}

TEST_F(MaintenanceTest, of_somebody_else_stays) {
  node_.maintenance = node_.status.maintenance_acknowledged = "by-hand";
  EXPECT_EQ(Decide().token, "by-hand");
  EXPECT_EQ(Decide().delete_pod, "");
}

TEST_F(MaintenanceTest, of_somebody_else_is_not_set_again_after_its_removal) {
  node_.status.maintenance_acknowledged = "by-hand";
  node_.status.daemon = {};
  EXPECT_EQ(Decide().token, "") << "the plugin has yet to follow";
}

TEST_F(MaintenanceTest, takes_a_tenth_of_a_clique_at_a_time_and_one_at_least) {
  Clique clique;
  clique.nodes = All({Node("a"), Node("b")});
  EXPECT_TRUE(MayBeginMaintenance(clique));
  api::ImexNode under = Node("a");
  under.maintenance = kToken;
  clique.nodes = All({under, Node("b")});
  EXPECT_FALSE(MayBeginMaintenance(clique));
  clique.nodes = All({Holding(under, 3, kRed), Node("b")});
  EXPECT_TRUE(MayBeginMaintenance(clique)) << "a busy node keeps nobody waiting";
  std::vector<api::ImexNode> many(11, Node("n"));
  many[0] = under;
  clique.nodes = All(many);
  EXPECT_TRUE(MayBeginMaintenance(clique));
  many[1] = under;
  clique.nodes = All(many);
  EXPECT_FALSE(MayBeginMaintenance(clique));
}

}  // namespace
}  // namespace cd::domain
