// spec.maintenance and the plugin's word on it.
#include <gmock/gmock.h>

#include "src/plugin/node_reporter_fixture.h"

namespace cd::plugin {
namespace {

TEST_F(NodeReporterTest, maintenance_is_acknowledged_when_no_channel_is_held_and_ended_by_its_removal) {
  auto instance = StartPublisher();
  Hold(*instance, 1);
  AskForMaintenance("m1");
  EXPECT_EQ(Stored().status.maintenance_acknowledged, "");
  Release(*instance, 1);
  EXPECT_EQ(Stored().status.maintenance_acknowledged, "m1");
  AskForMaintenance("");
  EXPECT_EQ(Stored().status.maintenance_acknowledged, "");
  EXPECT_EQ(instance->state.last().maintenance, "");
}

TEST_F(NodeReporterTest, word_that_a_daemons_pod_may_be_deleted_stands_until_there_is_another_pod) {
  auto instance = StartPublisher();
  api::NodeDaemon daemon;
  daemon.state = api::DaemonState::kReady;
  daemon.pod_uid = "former";
  instance->reporter.SetDaemon(daemon);
  const std::string token = api::ReplacementToken("former");
  AskForMaintenance(token);
  ASSERT_EQ(Stored().status.maintenance_acknowledged, token);
  AskForMaintenance("");
  EXPECT_EQ(instance->state.last().maintenance, token) << "a request to delete it may be on its way";
  instance->reporter.SetDaemon({});
  executor.RunPosted();
  EXPECT_EQ(instance->state.last().maintenance, token) << "the same pod may come up again";
  daemon.pod_uid = "next";
  instance->reporter.SetDaemon(daemon);
  executor.RunPosted();
  EXPECT_EQ(Stored().status.maintenance_acknowledged, "");
  EXPECT_EQ(instance->state.last().maintenance, "");
}

}  // namespace
}  // namespace cd::plugin
