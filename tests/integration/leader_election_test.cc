// Two candidates and one Lease on a real API server.
#include "src/kube/leader_election.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "tests/integration/cluster.h"

namespace cd::integration {
namespace {

using nlohmann::json;

// Longer than any test waits.
constexpr Duration kForEver = std::chrono::hours(1);

struct Candidate {
  Candidate(const api::ObjectKey& lease, const std::string& identity, Duration lease_duration = Duration(3'000)) {
    connection.OnLoop([&] {
      elector = std::make_unique<kube::LeaderElector>(
          *connection.client, connection.loop,
          kube::LeaderElectionOptions{.lease = lease,
                                      .identity = identity,
                                      .lease_duration = lease_duration,
                                      .renew_deadline = Duration(2'000),
                                      .retry_period = Duration(200)},
          kube::LeaderElector::Callbacks{.on_started = [this] { started = true; }, .on_lost = [this] { lost = true; }}, 1);
      elector->Start();
    });
  }
  ~Candidate() {
    connection.OnLoop([this] { elector.reset(); });
  }
  void Release() {
    std::promise<void> done;
    connection.loop.Post([&] { elector->Release([&] { done.set_value(); }); });
    done.get_future().wait();
  }

  Connection connection;
  std::atomic<bool> started = false, lost = false;
  std::unique_ptr<kube::LeaderElector> elector;
};

class LeaderElection : public testing::Test {
 protected:
  Connection connection_;
  const api::ObjectKey lease_{MakeNamespace(connection_), "controller"};

  json Spec() {
    auto lease = connection_.Call(kube::Get(api::kLeases, lease_));
    return lease ? (*lease)["spec"] : json();
  }
};

TEST_F(LeaderElection, one_leads_and_the_other_follows_a_clean_stop_at_once) {
  Candidate first(lease_, "first", kForEver);
  EXPECT_TRUE(Eventually([&] { return first.elector->IsLeader(); }));
  Candidate second(lease_, "second", kForEver);
  const json before = Spec();
  EXPECT_TRUE(Eventually([&] { return Spec()["renewTime"] != before["renewTime"]; })) << "the leader renews";
  EXPECT_FALSE(second.elector->IsLeader());
  EXPECT_FALSE(second.started);
  first.Release();
  EXPECT_FALSE(first.elector->IsLeader());
  EXPECT_TRUE(Eventually([&] { return second.elector->IsLeader(); })) << "no waiting for the lease's end";
  EXPECT_FALSE(first.lost);
  EXPECT_EQ(Spec()["holderIdentity"], "second");
  EXPECT_EQ(Spec()["leaseTransitions"], 1);
}

TEST_F(LeaderElection, dead_leader_is_replaced) {
  auto first = std::make_unique<Candidate>(lease_, "first");
  EXPECT_TRUE(Eventually([&] { return first->elector->IsLeader(); }));
  first.reset();  // without release
  Candidate second(lease_, "second");
  EXPECT_TRUE(Eventually([&] { return second.elector->IsLeader(); }));
  EXPECT_EQ(Spec()["holderIdentity"], "second");
}

TEST_F(LeaderElection, leader_without_a_server_stops_leading) {
  Candidate first(lease_, "first");
  EXPECT_TRUE(Eventually([&] { return first.elector->IsLeader(); }));
  Cluster::Get().KillApiServer();
  EXPECT_TRUE(Eventually([&] { return first.lost.load(); }));
  EXPECT_FALSE(first.elector->IsLeader());
  Cluster::Get().StartApiServer();
}

}  // namespace
}  // namespace cd::integration
