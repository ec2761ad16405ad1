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

// Under `serialize.lock` the checkpoint is written.
struct NodeReporterRetryTest : NodeReporterTest {
  std::filesystem::path lock() const { return dir.path() / "plugin" / "serialize.lock"; }
  void BreakDisk() {
    std::filesystem::remove(lock());
    ASSERT_TRUE(std::filesystem::create_directory(lock()));
  }
  void MendDisk() { std::filesystem::remove(lock()); }
  void ManyEvents(Instance& instance) {
    for (int i = 0; i < 5; ++i) instance.reporter.CheckpointChanged();
  }
};

TEST_F(NodeReporterRetryTest, maintenance_that_the_disk_does_not_take_is_tried_by_one_timer_however_many_events_come) {
  auto instance = StartPublisher();
  const std::size_t timers = executor.PendingTimers();
  BreakDisk();
  AskForMaintenance("m1");
  ManyEvents(*instance);
  EXPECT_EQ(executor.PendingTimers(), timers + 1);
  executor.Advance(Duration(5'000));
  EXPECT_EQ(executor.PendingTimers(), timers + 1);
  MendDisk();
  executor.Advance(Duration(1'000));
  EXPECT_EQ(Stored().status.maintenance_acknowledged, "m1");
  EXPECT_EQ(executor.PendingTimers(), timers);
}

TEST_F(NodeReporterRetryTest, maintenance_asked_for_while_another_instance_holds_the_lock_is_one_transaction) {
  auto instance = StartPublisher();
  const std::size_t timers = executor.PendingTimers();
  FileLock other(lock());
  ASSERT_TRUE(*other.TryLock());
  AskForMaintenance("m1");
  ManyEvents(*instance);
  AskForMaintenance("m2");
  EXPECT_EQ(executor.PendingTimers(), timers + 1);
  other.Unlock();
  executor.Advance(Duration(100));
  EXPECT_EQ(Stored().status.maintenance_acknowledged, "m2") << "what was asked meanwhile is not forgotten";
  EXPECT_EQ(executor.PendingTimers(), timers);
}

TEST_F(NodeReporterRetryTest, withdrawal_that_the_disk_does_not_take_is_tried_by_one_timer_however_many_events_come) {
  auto instance = StartPublisher();
  Hold(*instance, 1);
  const std::size_t timers = executor.PendingTimers();
  api.answer_delay = Duration(1'000);
  Release(*instance, 1);
  BreakDisk();
  executor.Advance(Duration(1'000));  // the server hears of it
  ASSERT_FALSE(instance->state.last().withdrawing.empty());
  ManyEvents(*instance);
  EXPECT_EQ(executor.PendingTimers(), timers + 1);
  MendDisk();
  executor.Advance(Duration(1'000));
  EXPECT_TRUE(instance->state.last().withdrawing.empty());
  EXPECT_EQ(executor.PendingTimers(), timers);
}

}  // namespace
}  // namespace cd::plugin
