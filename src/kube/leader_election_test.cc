#include "src/kube/leader_election.h"

#include <gtest/gtest.h>

#include "src/base/manual_executor.h"
#include "src/kube/lease_record.h"
#include "src/kube/scripted_client.h"

namespace cd::kube {
namespace {

using nlohmann::json;
using std::chrono::seconds;

class Election : public testing::Test {
 protected:
  Election()
      : elector_(client_, executor_, {.lease = {"ns", "lease"}, .identity = "me"},
                 {.on_started = [this] { ++started_; }, .on_lost = [this] { ++lost_; }}, 1) {
    elector_.Start();
  }

  static json LeaseOf(const std::string& holder, int renewals, int duration = 15) {
    json lease = {{"metadata", {{"name", "lease"}, {"namespace", "ns"}, {"resourceVersion", std::to_string(renewals)}}}};
    EncodeLease({.holder = holder, .duration_seconds = duration, .acquire_time = "t0", .renew_time = std::to_string(renewals)},
                lease);
    return lease;
  }
  // Answers the write under way as the server would.
  ApiRequest Accept() {
    const ApiRequest& write = client_.requests.back();
    return client_.Answer(json::parse(write.body));
  }
  void BecomeLeader() {
    client_.Answer(Fail(ErrorCode::kNotFound, "no lease"));
    Accept();
  }

  ManualExecutor executor_;
  ScriptedClient client_;
  int started_ = 0, lost_ = 0;
  LeaderElector elector_;
};

TEST_F(Election, first_candidate_creates_the_lease_and_leads) {
  client_.Answer(Fail(ErrorCode::kNotFound, "no lease"));
  EXPECT_FALSE(elector_.IsLeader());
  const ApiRequest create = Accept();
  EXPECT_EQ(create.verb, Verb::kCreate);
  const json spec = json::parse(create.body)["spec"];
  EXPECT_EQ(spec["holderIdentity"], "me");
  EXPECT_EQ(spec["leaseDurationSeconds"], 15);
  EXPECT_EQ(spec["leaseTransitions"], 0);
  EXPECT_EQ(spec["renewTime"], "2027-01-15T08:00:00.000000Z");
  EXPECT_TRUE(elector_.IsLeader());
  EXPECT_EQ(started_, 1);
}

TEST_F(Election, leader_renews_every_two_seconds_with_one_request_each) {
  BecomeLeader();
  const std::size_t before = client_.requests.size();
  for (int i = 0; i < 5; ++i) {
    executor_.Advance(seconds(2));
    EXPECT_EQ(Accept().verb, Verb::kUpdate);
  }
  EXPECT_EQ(client_.requests.size(), before + 5);
  EXPECT_TRUE(elector_.IsLeader());
  EXPECT_EQ(started_, 1);
}

TEST_F(Election, lease_of_a_living_holder_is_left_alone) {
  for (int i = 0; i < 20; ++i) {
    client_.Answer(LeaseOf("other", i));
    executor_.Advance(seconds(5));
  }
  for (const ApiRequest& request : client_.requests) EXPECT_EQ(request.verb, Verb::kGet);
  EXPECT_FALSE(elector_.IsLeader());
}

TEST_F(Election, silent_holder_is_replaced_after_the_duration_it_wrote) {
  Duration waited(0);
  client_.Answer(LeaseOf("other", 1, 30));
  while (waited < seconds(60) && !elector_.IsLeader()) {
    const Duration step = executor_.UntilNextTimer();
    executor_.Advance(step);
    waited += step;
    if (client_.requests.back().verb == Verb::kGet) client_.Answer(LeaseOf("other", 1, 30));
    if (client_.Unanswered() > 0) {
      EXPECT_EQ(json::parse(client_.requests.back().body)["spec"]["leaseTransitions"], 1);
      Accept();
    }
  }
  EXPECT_GE(waited, seconds(30));
  EXPECT_LT(waited, seconds(35));
  EXPECT_TRUE(elector_.IsLeader());
}

TEST_F(Election, holders_clock_does_not_matter) {
  json lease = LeaseOf("other", 1);
  lease["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z";
  client_.Answer(lease);
  executor_.Advance(seconds(5));
  EXPECT_EQ(client_.requests.back().verb, Verb::kGet);
}

TEST_F(Election, released_lease_is_taken_at_once) {
  client_.Answer(LeaseOf("", 1, 1));
  Accept();
  EXPECT_TRUE(elector_.IsLeader());
}

TEST_F(Election, lost_race_makes_no_leader) {
  client_.Answer(LeaseOf("", 1, 1));
  client_.Answer(Fail(ErrorCode::kConflict, "changed"));
  EXPECT_FALSE(elector_.IsLeader());
  EXPECT_EQ(client_.Unanswered(), 0U);
  executor_.Advance(seconds(5));
  client_.Answer(LeaseOf("other", 2));
  EXPECT_EQ(started_, 0);
}

TEST_F(Election, leadership_ends_ten_seconds_after_the_last_renewal_was_sent) {
  BecomeLeader();
  executor_.Advance(seconds(2));
  executor_.Advance(Duration(500));
  Accept();  // sent at 2 s
  executor_.Advance(seconds(2));
  client_.Answer(Fail(ErrorCode::kUnavailable, "gone"));
  executor_.Advance(Duration(7499));
  EXPECT_TRUE(elector_.IsLeader());
  EXPECT_EQ(lost_, 0);
  executor_.Advance(Duration(1));
  EXPECT_FALSE(elector_.IsLeader());
  EXPECT_EQ(lost_, 1);
}

TEST_F(Election, answer_after_the_deadline_makes_no_leader_again) {
  BecomeLeader();
  executor_.Advance(seconds(2));
  executor_.Advance(seconds(10));
  Accept();
  EXPECT_FALSE(elector_.IsLeader());
  EXPECT_EQ(lost_, 1);
  EXPECT_EQ(started_, 1);
}

TEST_F(Election, leader_whose_lease_was_taken_stops_at_once) {
  BecomeLeader();
  executor_.Advance(seconds(2));
  client_.Answer(Fail(ErrorCode::kConflict, "changed"));
  client_.Answer(LeaseOf("other", 9));
  EXPECT_FALSE(elector_.IsLeader());
  EXPECT_EQ(lost_, 1);
}

TEST_F(Election, foreign_write_that_leaves_us_the_holder_is_no_loss) {
  BecomeLeader();
  executor_.Advance(seconds(2));
  client_.Answer(Fail(ErrorCode::kConflict, "changed"));
  client_.Answer(LeaseOf("me", 9));
  Accept();
  EXPECT_TRUE(elector_.IsLeader());
  EXPECT_EQ(lost_, 0);
}

TEST_F(Election, release_empties_the_lease) {
  BecomeLeader();
  bool done = false;
  elector_.Release([&] { done = true; });
  EXPECT_FALSE(elector_.IsLeader());
  const json spec = json::parse(Accept().body)["spec"];
  EXPECT_EQ(spec["holderIdentity"], "");
  EXPECT_EQ(spec["leaseDurationSeconds"], 1);
  EXPECT_TRUE(done);
  EXPECT_EQ(lost_, 0);
}

TEST_F(Election, release_of_a_lease_not_held_writes_nothing) {
  client_.Answer(LeaseOf("other", 1));
  bool done = false;
  elector_.Release([&] { done = true; });
  executor_.Advance(seconds(30));
  EXPECT_TRUE(done);
  EXPECT_EQ(client_.requests.size(), 1U);
}

}  // namespace
}  // namespace cd::kube
