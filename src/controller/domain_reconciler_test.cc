// What time decides on: a member without IMEXNode, one that the others do not see, a lost IMEXDomain whose owner cannot be read.
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

// Red's IMEXDomain is lost; node a, in use by nobody any more, is assigned to it. A newer controller has let red have a value
// that this one does not know, so nothing tells it of red's changes, nor of its end.
class LostDomainOfUnknownWishes : public ReconcilersTest {
 protected:
  LostDomainOfUnknownWishes() {
    PutRed("Unheard");
    api::ImexNode a = domain::testing::Assigned("a", 0);
    a.domain->name = a.status.daemon.domain = kName;
    json node = api::EncodeImexNode(a);
    node["status"] = api::EncodeImexNodeStatus(a.status);
    api_.Put(api::kImexNodes, node);
    world_.Put(std::make_shared<const api::ImexNode>(a), Source::kWatch);
    Work();
  }
  void PutRed(const std::string& partition_policy) {
    api_.Put(
        api::kComputeDomains,
        {{"metadata", {{"namespace", kNamespace}, {"name", "red"}, {"uid", domain::testing::kRed}, {"resourceVersion", "1"}}},
         {"spec",
          {{"channel", {{"resourceClaimTemplate", {{"name", "red-channel"}}}, {"allocationMode", "All"}}},
           {"isolationMode", "Domain"},
           {"partitionPolicy", partition_policy}}}});
  }
  json Made() const { return api_.Find(api::kImexDomains, {"", kName}); }

  const std::string kName = api::DomainName({kClique, domain::testing::kRed});
};

TEST_F(LostDomainOfUnknownWishes, waits_for_them_because_they_are_for_life) {
  EXPECT_TRUE(Made().is_null());
  PutRed("Any");
  clock_.Advance(kOwnerAgain);
  Work();
  ASSERT_FALSE(Made().is_null());
  EXPECT_EQ(Made()["spec"]["allocationMode"], "All");
  EXPECT_EQ(Made()["spec"]["members"][0]["node"], "a");
}

TEST_F(LostDomainOfUnknownWishes, is_looked_at_again_although_another_turn_came_in_between) {
  TakeATurnInBetween(ImexDomainKey(kName));
  PutRed("Any");
  clock_.Advance(kOwnerAgain);
  Work();
  EXPECT_FALSE(Made().is_null());
}

TEST_F(LostDomainOfUnknownWishes, is_made_without_when_the_owner_is_gone) {
  api_.Remove(api::kComputeDomains, {kNamespace, "red"});
  clock_.Advance(kOwnerAgain);
  Work();
  EXPECT_FALSE(Made().is_null()) << "its members leave by it";
}

}  // namespace
}  // namespace cd::controller
