#include "src/domain/unseen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/domain/testing.h"

namespace cd::domain {
namespace {

using namespace testing;  // NOLINT
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// READY nodes n0, n1, … at indexes 0, 1, …, each connected with every other one; tests cut links.
class UnseenTest : public ::testing::Test {
 protected:
  void Make(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string name = "n" + std::to_string(i);
      domain_.members.push_back(Member(i, name));
      nodes_.push_back(Assigned(name, i));
      for (int other = 0; other < count; ++other) {
        if (other != i) nodes_.back().status.daemon.connected.push_back(other);
      }
    }
  }
  // One way: that is what only the one side notices.
  void Blind(int from, int to) { std::erase(nodes_[from].status.daemon.connected, to); }
  void Cut(int a, int b) {
    Blind(a, b);
    Blind(b, a);
  }
  std::set<std::string> Unseen() const { return UnseenMembers(CliqueOf(domain_, nodes_)); }

  api::ImexDomain domain_ = Domain();
  std::vector<api::ImexNode> nodes_;
};

TEST_F(UnseenTest, nobody_where_all_are_connected) {
  Make(4);
  EXPECT_THAT(Unseen(), IsEmpty());
}

TEST_F(UnseenTest, ready_node_that_nobody_sees_whatever_it_sees_itself) {
  Make(4);
  for (int i = 0; i < 3; ++i) Blind(i, 3);
  EXPECT_THAT(Unseen(), ElementsAre("n3"));
  for (int i = 0; i < 3; ++i) Blind(3, i);
  EXPECT_THAT(Unseen(), ElementsAre("n3"));
}

TEST_F(UnseenTest, two_witnesses_are_enough_and_one_is_not) {
  Make(3);
  Cut(0, 2);
  EXPECT_THAT(Unseen(), IsEmpty());
  Cut(1, 2);
  EXPECT_THAT(Unseen(), ElementsAre("n2"));
}

TEST_F(UnseenTest, of_two_nodes_neither_is_to_blame) {
  Make(2);
  Cut(0, 1);
  EXPECT_THAT(Unseen(), IsEmpty());
}

TEST_F(UnseenTest, node_that_does_not_say_ready_contradicts_nobody_and_is_contradicted_by_nobody) {
  Make(4);
  for (int i = 0; i < 3; ++i) Cut(i, 3);
  nodes_[3].status.daemon.state = api::DaemonState::kNotReady;
  EXPECT_THAT(Unseen(), IsEmpty());
  nodes_[3].status.daemon.state = api::DaemonState::kReady;
  nodes_[0].status.daemon.state = nodes_[1].status.daemon.state = api::DaemonState::kNotReady;
  EXPECT_THAT(Unseen(), IsEmpty()) << "one witness is left";
}

TEST_F(UnseenTest, few_nodes_cut_off_from_many_although_they_see_each_other) {
  Make(8);
  for (int few : {6, 7}) {
    for (int many = 0; many < 6; ++many) Cut(few, many);
  }
  EXPECT_THAT(Unseen(), ElementsAre("n6", "n7"));
}

TEST_F(UnseenTest, halves_of_a_clique_are_not_to_blame) {
  Make(8);
  for (int left = 0; left < 4; ++left) {
    for (int right = 4; right < 8; ++right) Cut(left, right);
  }
  EXPECT_THAT(Unseen(), IsEmpty());
}

TEST_F(UnseenTest, marked_node_that_starts_anew_stays_marked_until_it_is_seen) {
  Make(4);
  for (int i = 0; i < 3; ++i) Cut(i, 3);
  domain_.members[3].unseen = true;
  nodes_[3].status.daemon.state = api::DaemonState::kStarting;
  EXPECT_THAT(Unseen(), ElementsAre("n3"));
  nodes_[3].status.daemon.state = api::DaemonState::kReady;
  EXPECT_THAT(Unseen(), ElementsAre("n3"));
  for (int i = 0; i < 3; ++i) nodes_[i].status.daemon.connected.push_back(3);
  EXPECT_THAT(Unseen(), IsEmpty());
}

// A clique that has just come up, or a network that lets nobody through: there is no word against anybody.
TEST_F(UnseenTest, nobody_where_nobody_sees_anybody) {
  Make(5);
  for (api::ImexNode& node : nodes_) node.status.daemon.connected.clear();
  EXPECT_THAT(Unseen(), IsEmpty());
}

}  // namespace
}  // namespace cd::domain
