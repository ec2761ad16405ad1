// What an event makes due.
#include "src/controller/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "src/base/manual_executor.h"
#include "src/controller/work_key.h"
#include "src/domain/testing.h"

namespace cd::controller {
namespace {

using domain::testing::Assigned;
using domain::testing::kClique;
using domain::testing::kRed;
using testing::Contains;

class WorldTest : public ::testing::Test {
 protected:
  void See(api::ImexNode node) {
    node.meta.resource_version = std::to_string(++version_);
    world_.Put(std::make_shared<const api::ImexNode>(std::move(node)), Source::kWatch);
  }
  std::set<std::string> Due() {
    std::set<std::string> keys;
    while (const auto key = queue_.TryTake()) {
      keys.insert(*key);
      queue_.Done(*key);
    }
    return keys;
  }

  ManualClock clock_;
  kube::WorkQueue queue_{clock_};
  World world_{queue_, clock_, {}};
  int version_ = 0;
};

// A node's daemon may be replaced only when few others of the NVLink clique are at it, whatever IMEX domains these are in.
TEST_F(WorldTest, end_of_a_maintenance_is_the_turn_of_all_nodes_of_the_clique) {
  api::ImexNode a = Assigned("a", 0);
  a.domain = api::DomainAssignment{api::DomainName({kClique, kRed}), "uid-of-reds-domain", 0};
  a.maintenance = api::ReplacementToken("pod-a");
  See(a);
  See(Assigned("b", 1));
  Due();
  a.maintenance.clear();
  See(a);
  EXPECT_THAT(Due(), Contains(NodeKey("b")));
}

}  // namespace
}  // namespace cd::controller
