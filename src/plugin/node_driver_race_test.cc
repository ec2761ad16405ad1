// Prepare against Unprepare, another instance, a call given up, and a crash at any step.
#include <gmock/gmock.h>

#include "src/plugin/node_driver_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(NodeDriverTest, unprepare_kills_a_prepare_in_flight) {
  report.answering = false;
  Prepare(ClaimRef(1));
  Unprepare(driver, ClaimRef(1));
  EXPECT_THAT(Error(), HasSubstr("was unprepared"));
  report.held[0]({});
  executor.RunPosted();
  EXPECT_EQ(results.size(), 1u);
  EXPECT_TRUE(Stored().claims.empty());
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
}

TEST_F(NodeDriverTest, stale_retry_after_unprepare_by_the_other_instance_is_refused) {
  NodeState other_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver other{executor, api, other_state, files, report, {kNode, "computedomain-system", "pod-b"}};
  report.answering = false;
  Prepare(driver, ClaimRef(1));   // began in this instance, recorded
  Unprepare(other, ClaimRef(1));  // ended in the other
  report.held[0]({});
  executor.RunPosted();
  EXPECT_THAT(Error(), HasSubstr("the claim was unprepared while this Prepare was under way"));
  EXPECT_TRUE(Stored().claims.empty());
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
}

TEST_F(NodeDriverTest, unprepare_by_the_other_instance_before_anything_was_recorded_is_refused_too) {
  NodeState other_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver other{executor, api, other_state, files, report, {kNode, "computedomain-system", "pod-b"}};
  SetDomain({});
  Prepare(driver, ClaimRef(1));  // waits for the lease
  Unprepare(other, ClaimRef(1));
  SetDomain({Lease(7, kRedUid)});
  executor.RunPosted();
  EXPECT_THAT(Error(), HasSubstr("was unprepared while this Prepare was under way"));
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, prepare_taken_over_by_the_other_instance_loses_its_nonce) {
  NodeState other_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver other{executor, api, other_state, files, report, {kNode, "computedomain-system", "pod-b"}};
  other.SetView(std::make_shared<NodeView>(view));
  report.answering = false;
  Prepare(driver, ClaimRef(1), 1);
  Prepare(other, ClaimRef(1), 2);
  report.held[0]({});
  executor.RunPosted();
  EXPECT_THAT(Error(0), HasSubstr("another Prepare of this claim took over"));
  report.held[1]({});
  executor.RunPosted();
  EXPECT_EQ(Error(1), "prepared");
}

TEST_F(NodeDriverTest, what_one_instance_prepared_the_other_unprepares) {
  NodeState other_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver other{executor, api, other_state, files, report, {kNode, "computedomain-system", "pod-b"}};
  Prepare(driver, ClaimRef(1));
  Prepare(other, ClaimRef(1), 2);
  EXPECT_EQ(Error(1), "prepared");
  Unprepare(other, ClaimRef(1));
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, commit_that_finds_the_lock_taken_says_so_when_time_is_up) {
  report.answering = false;
  Prepare(ClaimRef(1));
  FileLock other(dir.path() / "plugin" / "serialize.lock");
  ASSERT_TRUE(other.TryLock().value());
  executor.Advance(kPrepareLimit / 2);  // so that the call's time is up before the lock's
  report.held[0]({});
  executor.Advance(kPrepareLimit / 2 + kOvertime);
  EXPECT_THAT(Error(), HasSubstr("the node lock is held by another process"));
}

TEST_F(NodeDriverTest, channel_whose_last_use_is_not_reported_is_not_given_again) {
  state.Transact(
      [](Checkpoint& c) {
        c.withdrawing.insert({kDomainUid, 7, kRedUid, kDomain});
        return Status{};
      },
      [](const Status& s) { EXPECT_TRUE(s); });
  Prepare(ClaimRef(1));
  executor.Advance(kPrepareLimit);
  EXPECT_THAT(Error(), HasSubstr("the end of the channel's last use is not reported"));
}

TEST_F(NodeDriverTest, another_channel_than_the_one_begun_with_is_not_taken) {
  view.daemon.state = api::DaemonState::kStarting;
  driver.SetView(std::make_shared<NodeView>(view));
  Prepare(ClaimRef(1));
  SetDomain({Lease(8, kRedUid)});
  executor.RunPosted();
  EXPECT_THAT(Error(), HasSubstr("was given another channel while this Prepare was under way"));
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, cancelled_call_commits_nothing) {
  report.answering = false;
  Prepare(ClaimRef(1), 8);
  driver.Cancelled(8);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].error().code, ErrorCode::kCancelled);
  report.held[0]({});
  executor.RunPosted();
  EXPECT_TRUE(Stored().claims.empty());
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
  EXPECT_EQ(executor.PendingTimers(), 0u);
}

TEST_F(NodeDriverTest, cancelling_one_of_two_calls_leaves_the_other) {
  report.answering = false;
  Prepare(ClaimRef(1), 8);
  Prepare(ClaimRef(1), 9);
  driver.Cancelled(8);
  EXPECT_EQ(results.size(), 1u);
  report.held[0]({});
  executor.RunPosted();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(Error(1), "prepared");
}

TEST_F(NodeDriverTest, claim_deleted_while_waiting_is_not_committed) {
  report.answering = false;
  Prepare(ClaimRef(1));
  api.Remove(api::kResourceClaims, {"red-ns", "claim-1"});
  report.held[0]({});
  executor.RunPosted();
  EXPECT_THAT(Error(), HasSubstr("ResourceClaim red-ns/claim-1"));
  EXPECT_TRUE(Stored().claims.empty());
}

TEST_F(NodeDriverTest, silent_api_delays_the_check_of_the_lease_but_not_that_of_the_claim) {
  report.answering = false;
  Prepare(ClaimRef(1));
  api.fault = [](const kube::ApiRequest&) {
    return std::optional<cd::Error>(cd::Error{ErrorCode::kUnavailable, "no route", std::nullopt});
  };
  report.held[0]({});
  executor.RunPosted();
  EXPECT_THAT(results, IsEmpty());
  api.fault = nullptr;
  executor.Advance(kReadRetry);
  EXPECT_EQ(Error(), "prepared");
}

TEST_F(NodeDriverTest, crash_between_start_and_commit_is_finished_by_the_next_prepare) {
  report.answering = false;
  Prepare(ClaimRef(1));
  ASSERT_EQ(Stored().claims.at(ClaimUid(1)).phase, ClaimPhase::kStarted);
  // The process died here; its successor knows only the disk.
  FakeReport fresh_report;
  NodeState fresh_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver fresh{executor, api, fresh_state, files, fresh_report, {kNode, "computedomain-system", "pod-a2"}};
  fresh.SetView(std::make_shared<NodeView>(view));
  Prepare(fresh, ClaimRef(1), 2);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(Error(), "prepared");
  EXPECT_EQ(fresh_report.asked.size(), 1u);  // announced again, checked again
}

TEST_F(NodeDriverTest, crash_between_cdi_spec_and_checkpoint_is_finished_by_the_next_prepare) {
  report.answering = false;
  Prepare(ClaimRef(1));
  ClaimEntry entry = Stored().claims.at(ClaimUid(1));
  ASSERT_TRUE(files.Write(entry));  // what the dying process still did
  FakeReport fresh_report;
  NodeState fresh_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver fresh{executor, api, fresh_state, files, fresh_report, {kNode, "computedomain-system", "pod-a2"}};
  fresh.SetView(std::make_shared<NodeView>(view));
  Prepare(fresh, ClaimRef(1), 2);
  EXPECT_EQ(Error(), "prepared");
  Unprepare(fresh, ClaimRef(1));
  EXPECT_FALSE(std::filesystem::exists(CdiPath(1)));
}

TEST_F(NodeDriverTest, crash_after_the_commit_answers_from_the_checkpoint) {
  Prepare(ClaimRef(1));
  NodeState fresh_state{executor, dir.path() / "plugin", "boot-1", files};
  NodeDriver fresh{executor, api, fresh_state, files, report, {kNode, "computedomain-system", "pod-a2"}};
  api.calls.clear();
  Prepare(fresh, ClaimRef(1), 2);
  EXPECT_EQ(Error(1), "prepared");
  EXPECT_THAT(api.calls, IsEmpty());
}

}  // namespace
}  // namespace cd::plugin
