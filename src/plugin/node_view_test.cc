// What a pod is told that waits or may not start, by what is there on its node.
#include "src/plugin/node_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "src/plugin/prepare_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::HasSubstr;

// Everything in place for a claim of one slot; tests spoil it.
struct World {
  NodeView view = ViewOf({Lease(7, kRedUid)});
  api::ImexNode node = *view.imex_node;
  api::ImexDomain domain = *view.domain;
  ChannelRequest request{ClaimRef(1), {kRedUid, api::AllocationMode::kSingle}};

  Judgement Judged() {
    view.imex_node = std::make_shared<api::ImexNode>(node);
    if (view.domain) view.domain = std::make_shared<api::ImexDomain>(domain);
    return Judge(view, request);
  }
};

std::string Said(const Judgement& judgement) {
  if (const auto* node = std::get_if<AwaitsNode>(&judgement)) return node->missing;
  if (const auto* lease = std::get_if<AwaitsLease>(&judgement)) return lease->missing;
  if (const auto* denied = std::get_if<Denied>(&judgement)) return denied->error.message;
  return "";
}

TEST(NodeViewTest, with_everything_in_place_the_channel_is_granted) {
  World world;
  const Judgement judged = world.Judged();
  ASSERT_TRUE(std::holds_alternative<Granted>(judged)) << Said(judged);
  EXPECT_EQ(std::get<Granted>(judged).grant.channel, 7);
}

TEST(NodeViewTest, node_without_object_is_not_known) {
  EXPECT_THAT(Said(Judge(NodeView{}, World().request)), HasSubstr("this node is not known to the controller yet"));
}

struct Lacking {
  const char* name;
  std::function<void(World&)> spoil;
  const char* says;
};

class LackingTest : public ::testing::TestWithParam<Lacking> {};

TEST_P(LackingTest, is_told_what_is_missing) {
  World world;
  GetParam().spoil(world);
  EXPECT_THAT(Said(world.Judged()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LackingTest,
    ::testing::Values(
        Lacking{"member_of_nothing", [](auto& w) { w.node.domain.reset(); },
                "the controller has not made this node a member of an IMEX domain yet"},
        Lacking{"no_fabric",
                [](auto& w) {
                  w.node.domain.reset();
                  w.view.fabric_message = "GPU 0: in progress";
                },
                "this node has no usable NVLink fabric: GPU 0: in progress"},
        Lacking{"domain_unseen", [](auto& w) { w.view.domain.reset(); }, "is not there yet"},
        Lacking{"domain_of_another_life", [](auto& w) { w.domain.meta.uid = "other"; }, "is not there yet"},
        Lacking{"no_lease", [](auto& w) { w.domain.channels.clear(); }, "the controller has not granted a channel of IMEXDomain"},
        Lacking{"held_by_others",
                [](auto& w) {
                  w.domain.channels.clear();
                  w.request.whole_node = true;
                  w.node.status.channels = {{kDomainUid, 3, kBlueUid}};
                },
                "the node is not free while processes hold channel 3 of the ComputeDomain with UID 3333"},
        Lacking{"no_slot", [](auto& w) { w.domain.members.clear(); }, "this node has no slot in IMEXDomain"},
        Lacking{"maintenance", [](auto& w) { w.node.maintenance = "upgrade"; }, "the node's IMEX daemon is under maintenance"},
        Lacking{"no_daemon", [](auto& w) { w.view.daemon = {}; }, "no IMEX daemon runs on this node"},
        Lacking{"daemon_elsewhere", [](auto& w) { w.view.daemon.index = 9; }, "the IMEX daemon has not joined IMEXDomain"},
        Lacking{"daemon_starting",
                [](auto& w) {
                  w.view.daemon.state = api::DaemonState::kStarting;
                  w.view.daemon.message = "session failed";
                },
                "the IMEX daemon is not READY yet: session failed"},
        Lacking{"unseen", [](auto& w) { w.domain.members[0].unseen = true; },
                "the IMEX daemon says READY, but the other nodes' daemons do not see it"},
        Lacking{"other_partition_now", [](auto& w) { w.view.clique_ids = {"other.2"}; },
                "until the pods that hold channels of it have ended"},
        Lacking{"part_of_the_node",
                [](auto& w) {
                  w.domain.mode = api::DomainMode::kExclusive;
                  w.request.slots = 31;
                },
                "which needs all slots of the node; the claim has 31"},
        Lacking{"draining", [](auto& w) { w.domain.channels[0].state = api::LeaseState::kDraining; },
                "is being deleted, or has moved to another NVLink partition"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cd::plugin
