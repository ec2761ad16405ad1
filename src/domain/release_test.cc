#include "src/domain/release.h"

#include <gtest/gtest.h>

#include "src/domain/testing.h"

namespace cd::domain {
namespace {

using namespace testing;  // NOLINT

const std::set<std::string> kNone;

TEST(ReleaseTest, without_gating_all_go) {
  EXPECT_EQ(DecideRelease({}, nullptr, {"a"}, kNone), (Release{true, {}}));
}

TEST(ReleaseTest, gated_claims_wait_until_they_are_ordered_to_go) {
  GateView gate;
  EXPECT_EQ(DecideRelease({}, &gate, {"a", "b"}, {"a", "b"}), (Release{false, {}}));
  gate.release = {"a", "b"};
  EXPECT_EQ(DecideRelease({}, &gate, {"a", "b"}, kNone), (Release{false, {"a", "b"}}));
}

TEST(ReleaseTest, late_joiner_goes_when_it_is_connected) {
  const GateView open{true, {}};
  EXPECT_EQ(DecideRelease({false, {"a"}}, &open, {"a", "late"}, {"a"}), (Release{false, {"a"}}));
  EXPECT_EQ(DecideRelease({false, {"a"}}, &open, {"a", "late"}, {"a", "late"}), (Release{false, {"a", "late"}}));
}

TEST(ReleaseTest, claim_that_ends_costs_no_write_and_the_last_one_clears) {
  const GateView open{true, {}};
  EXPECT_EQ(DecideRelease({false, {"a", "b"}}, &open, {"b"}, {"b"}), (Release{false, {"a", "b"}}));
  const GateView shut;
  EXPECT_EQ(DecideRelease({false, {"a", "b"}}, &shut, kNone, kNone), (Release{false, {}}));
}

TEST(ReleaseTest, second_gang_finds_none_of_its_claims_released) {
  const GateView shut;
  EXPECT_EQ(DecideRelease({false, {"a", "b"}}, &shut, {"c"}, {"c"}), (Release{false, {}}));
}

TEST(ReleaseTest, gating_that_comes_later_holds_back_nobody_who_runs) {
  const GateView open{true, {}};
  EXPECT_EQ(DecideRelease({true, {}}, &open, {"a", "b"}, kNone), (Release{false, {"a", "b"}}));
}

// Nodes a, b, c of red in one clique, each READY and connected with the others; tests spoil it.
struct World {
  api::ImexDomain domain = Domain();
  api::ImexNode a = Assigned("a", 0), b = Assigned("b", 1), c = Assigned("c", 2);
  World() {
    domain.members = {Member(0, "a"), Member(1, "b"), Member(2, "c")};
    a.status.daemon.connected = {1, 2};
    b.status.daemon.connected = {0, 2};
    c.status.daemon.connected = {0, 1};
  }
  std::set<std::string> Connected() const {
    std::vector<Demand> demands;
    for (const std::string node : {"a", "b", "c"}) demands.push_back({node, "team", node, {kRed, {}}, "claim-" + node});
    return ConnectedClaims(CliqueOf(domain, {a, b, c}), demands);
  }
};

TEST(ConnectedClaimsTest, all_connected) {
  EXPECT_EQ(World().Connected(), (std::set<std::string>{"claim-a", "claim-b", "claim-c"}));
}

TEST(ConnectedClaimsTest, both_sides_must_see_each_other) {
  World world;
  world.a.status.daemon.connected = {1};
  EXPECT_EQ(world.Connected(), (std::set<std::string>{"claim-b"}));
}

TEST(ConnectedClaimsTest, node_that_is_not_ready_waits_and_keeps_nobody_waiting) {
  World world;
  world.c.status.daemon.state = api::DaemonState::kNotReady;
  world.a.status.daemon.connected = {1};
  world.b.status.daemon.connected = {0};
  EXPECT_EQ(world.Connected(), (std::set<std::string>{"claim-a", "claim-b"}));
}

}  // namespace
}  // namespace cd::domain
