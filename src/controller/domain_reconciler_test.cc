// Members of an IMEXDomain that time decides on: one without IMEXNode, one that the others do not see.
#include <gmock/gmock.h>

#include <array>
#include <string>
#include <vector>

#include "src/api/imex_node.h"
#include "src/controller/reconcilers_fixture.h"
#include "src/domain/testing.h"
#include "src/domain/unseen.h"

namespace cd::controller {
namespace {

using domain::testing::kClique;
using nlohmann::json;
using testing::ElementsAre;

// Nodes a and b are members; b's IMEXNode is gone, and its Node.
class LostMember : public ReconcilersTest {
 protected:
  LostMember() {
    const api::ImexNode a = domain::testing::Assigned("a", 0);
    json node = api::EncodeImexNode(a);
    node["status"] = api::EncodeImexNodeStatus(a.status);
    api_.Put(api::kImexNodes, node);
    world_.Put(std::make_shared<const api::ImexNode>(a), Source::kWatch);

    api::ImexDomain domain = domain::testing::Domain();
    domain.members = {domain::testing::Member(0, "a"), domain::testing::Member(1, "b")};
    api_.Put(api::kImexDomains, api::EncodeImexDomain(domain));
    world_.Put(std::make_shared<const api::ImexDomain>(domain), Source::kWatch);
    Work();
  }
  std::vector<std::string> Members() const {
    const DomainSnapshot snapshot = world_.SnapshotDomain(kClique);
    std::vector<std::string> names;
    for (const api::DomainMember& member : snapshot.clique.domain->members) names.push_back(member.node);
    return names;
  }
};

TEST_F(LostMember, keeps_its_slot_until_its_node_was_absent_twice_and_nobody_polls_meanwhile) {
  clock_.Advance(kGoneAfter - Duration(1));
  Work();
  EXPECT_EQ(Members(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(api_.Gets(api::kNodes), 1);
  clock_.Advance(Duration(1));
  Work();
  EXPECT_EQ(Members(), std::vector<std::string>{"a"});
}

TEST_F(LostMember, is_looked_for_again_although_another_turn_came_in_between) {
  TakeATurnInBetween(ImexDomainKey(kClique));
  EXPECT_EQ(api_.Gets(api::kNodes), 1) << "too early for the second look";
  clock_.Advance(kGoneAfter);
  Work();
  EXPECT_EQ(Members(), std::vector<std::string>{"a"});
}

// Nodes a, b and c are members and READY.
class ContradictedMember : public ReconcilersTest {
 protected:
  ContradictedMember() {
    api::ImexDomain domain = domain::testing::Domain();
    for (int i = 0; i < 3; ++i) domain.members.push_back(domain::testing::Member(i, kNames[i]));
    api_.Put(api::kImexDomains, api::EncodeImexDomain(domain));
    world_.Put(std::make_shared<const api::ImexDomain>(domain), Source::kWatch);
    Report({{1, 2}, {0, 2}, {0, 1}});
  }
  // What each of them is connected with.
  void Report(const std::vector<std::vector<int>>& connected) {
    for (int i = 0; i < 3; ++i) {
      api::ImexNode node = domain::testing::Assigned(kNames[i], i);
      node.meta.resource_version = std::to_string(++version_);
      node.status.daemon.connected = connected[i];
      world_.Put(std::make_shared<const api::ImexNode>(node), Source::kWatch);
    }
    Work();
  }
  std::vector<std::string> Unseen() const {
    std::vector<std::string> names;
    const DomainSnapshot snapshot = world_.SnapshotDomain(kClique);
    for (const api::DomainMember& member : snapshot.clique.domain->members) {
      if (member.unseen) names.push_back(member.node);
    }
    return names;
  }

  static constexpr std::array kNames{"a", "b", "c"};
  int version_ = 0;
};

TEST_F(ContradictedMember, is_marked_after_half_a_minute_and_no_more_when_it_is_seen) {
  Report({{1}, {0}, {}});
  clock_.Advance(domain::kUnseenFor - Duration(1));
  Work();
  EXPECT_THAT(Unseen(), ElementsAre());
  clock_.Advance(Duration(1));
  Work();
  EXPECT_THAT(Unseen(), ElementsAre("c"));
  Report({{1, 2}, {0, 2}, {0, 1}});
  EXPECT_THAT(Unseen(), ElementsAre());
}

TEST_F(ContradictedMember, that_was_seen_meanwhile_is_given_its_time_anew) {
  Report({{1}, {0}, {}});
  clock_.Advance(domain::kUnseenFor - Duration(1));
  Report({{1, 2}, {0, 2}, {0, 1}});
  Report({{1}, {0}, {}});
  clock_.Advance(Duration(1));
  Work();
  EXPECT_THAT(Unseen(), ElementsAre());
  clock_.Advance(domain::kUnseenFor);
  Work();
  EXPECT_THAT(Unseen(), ElementsAre("c"));
}

}  // namespace
}  // namespace cd::controller
