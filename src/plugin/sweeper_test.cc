// What the kubelet never unprepared: claims that are gone or elsewhere, and Prepares that died half-way.
#include "src/plugin/sweeper.h"

#include <gmock/gmock.h>

#include "src/plugin/prepare_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SweeperTest : public ::testing::Test {
 protected:
  SweeperTest() {
    WriteDriver(dir);
    EXPECT_TRUE(files.MakeDirectories());
  }

  ClaimEntry Entry(int n, ClaimPhase phase) {
    ClaimEntry entry;
    entry.claim = ClaimRef(n);
    entry.phase = phase;
    entry.nonce = phase == ClaimPhase::kStarted ? "pod-a-1" : "";
    entry.started = phase == ClaimPhase::kStarted ? executor.clock().Now() : SteadyTime{};
    entry.grant = Grant{kDomain, kDomainUid, kDomain, 7, {"red-ns", "red", kRedUid}};
    entry.devices = {{"channel", kNode, "channel-0", std::nullopt}};
    return entry;
  }
  void Record(const ClaimEntry& entry) {
    state.Transact(
        [&](Checkpoint& checkpoint) {
          checkpoint.claims[entry.claim.uid] = entry;
          return entry.phase == ClaimPhase::kCompleted ? files.Write(entry) : Status{};
        },
        [](const Status& written) { EXPECT_TRUE(written); });
  }
  void Sweep() {
    sweeper.Sweep();
    executor.RunPosted();
  }
  bool HasCdiSpec(int n) {
    return std::filesystem::exists(dir.path() / "cdi" / ("compute-domain.nvidia.com-claim_" + ClaimUid(n) + ".json"));
  }

  TempDir dir;
  ManualExecutor executor;
  FakeApi api{executor};
  ClaimFiles files{PathsIn(dir)};
  NodeState state{executor, dir.path() / "plugin", "boot-1", files};
  Sweeper sweeper{executor, api, state, files, kNode};
};

TEST_F(SweeperTest, prepared_claim_that_is_gone_is_given_up_and_lingers) {
  Record(Entry(1, ClaimPhase::kCompleted));
  Sweep();
  EXPECT_THAT(state.last().claims, IsEmpty());
  EXPECT_TRUE(state.last().lingering.contains(ClaimUid(1)));
  EXPECT_FALSE(HasCdiSpec(1));
  EXPECT_THAT(api.calls, ElementsAre("get resourceclaims"));
}

TEST_F(SweeperTest, claim_that_is_allocated_to_another_node_now_is_given_up) {
  auto claim = ClaimObject(ClaimRef(1), kRedUid);
  claim["status"]["allocation"]["devices"]["results"][0]["pool"] = "node-2";
  api.Put(api::kResourceClaims, claim);
  Record(Entry(1, ClaimPhase::kCompleted));
  Sweep();
  EXPECT_THAT(state.last().claims, IsEmpty());
  EXPECT_FALSE(HasCdiSpec(1));
}

TEST_F(SweeperTest, claim_of_the_same_name_with_another_uid_is_not_the_one_prepared) {
  auto claim = ClaimObject(ClaimRef(1), kRedUid);
  claim["metadata"]["uid"] = ClaimUid(9);
  api.Put(api::kResourceClaims, claim);
  Record(Entry(1, ClaimPhase::kCompleted));
  Sweep();
  EXPECT_THAT(state.last().claims, IsEmpty());
}

TEST_F(SweeperTest, claim_in_use_stays_also_while_it_is_being_deleted) {
  auto claim = ClaimObject(ClaimRef(1), kRedUid);
  claim["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z";
  api.Put(api::kResourceClaims, claim);
  Record(Entry(1, ClaimPhase::kCompleted));
  Sweep();
  EXPECT_TRUE(state.last().claims.contains(ClaimUid(1)));
  EXPECT_TRUE(HasCdiSpec(1));
}

TEST_F(SweeperTest, deleted_files_of_a_claim_in_use_come_back) {
  api.Put(api::kResourceClaims, ClaimObject(ClaimRef(1), kRedUid));
  Record(Entry(1, ClaimPhase::kCompleted));
  std::filesystem::remove_all(dir.path() / "cdi");
  std::filesystem::remove_all(dir.path() / "plugin" / "claims");
  Sweep();
  EXPECT_TRUE(HasCdiSpec(1));
  EXPECT_TRUE(std::filesystem::exists(dir.path() / "plugin" / "claims" / (ClaimUid(1) + ".json")));
}

TEST_F(SweeperTest, server_that_does_not_answer_proves_nothing) {
  api.fault = [](const kube::ApiRequest&) { return Error{ErrorCode::kUnavailable, "down"}; };
  Record(Entry(1, ClaimPhase::kCompleted));
  Sweep();
  EXPECT_TRUE(state.last().claims.contains(ClaimUid(1)));
  EXPECT_TRUE(HasCdiSpec(1));
}

TEST_F(SweeperTest, prepare_that_died_is_forgotten_when_nobody_can_be_at_it_any_more) {
  Record(Entry(1, ClaimPhase::kStarted));
  sweeper.Start();
  executor.Advance(Duration(59'000));
  EXPECT_TRUE(state.last().claims.contains(ClaimUid(1)));
  executor.Advance(Duration(3'000));
  EXPECT_THAT(state.last().claims, IsEmpty());
  EXPECT_THAT(state.last().lingering, IsEmpty());  // it was never given to a container
  EXPECT_THAT(state.last().withdrawing, ElementsAre(api::NodeChannel{kDomainUid, 7, kRedUid, kDomain}));
  EXPECT_THAT(api.calls, IsEmpty());
}

}  // namespace
}  // namespace cd::plugin
