// The checkpoint on disk: two instances, reboots, damage.
#include "src/plugin/node_state.h"

#include <gmock/gmock.h>

#include "src/plugin/prepare_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

ClaimEntry Completed(int n) {
  ClaimEntry entry;
  entry.claim = ClaimRef(n);
  entry.phase = ClaimPhase::kCompleted;
  entry.grant = Grant{kDomain, kDomainUid, kDomain, 7, {"red-ns", "red", kRedUid}};
  entry.devices = {{"channel", kNode, "channel-0", "share-1"}};
  return entry;
}

class NodeStateTest : public ::testing::Test {
 protected:
  NodeStateTest() {
    WriteDriver(dir);
    EXPECT_TRUE(files.MakeDirectories());
  }
  Status Put(NodeState& state, const ClaimEntry& entry) {
    Status result = Fail(ErrorCode::kInternal, "not done");
    state.Transact(
        [&](Checkpoint& checkpoint) {
          checkpoint.claims[entry.claim.uid] = entry;
          return files.Write(entry);
        },
        [&](Status done) { result = std::move(done); });
    return result;
  }
  std::vector<std::string> DamagedFiles() {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(plugin_dir)) {
      if (entry.path().filename().string().starts_with("checkpoint.json.damaged")) found.push_back(Slurp(entry.path()));
    }
    return found;
  }

  TempDir dir;
  std::filesystem::path plugin_dir = dir.path() / "plugin";
  ManualExecutor executor;
  ClaimFiles files{PathsIn(dir)};
};

TEST_F(NodeStateTest, a_second_instance_reads_what_the_first_wrote) {
  NodeState first(executor, plugin_dir, "boot-1", files);
  NodeState second(executor, plugin_dir, "boot-1", files);
  ASSERT_TRUE(Put(first, Completed(1)));
  ASSERT_TRUE(Put(second, Completed(2)));
  first.Refresh();
  EXPECT_EQ(first.last().claims.size(), 2u);
}

TEST_F(NodeStateTest, a_change_that_fails_writes_nothing) {
  NodeState state(executor, plugin_dir, "boot-1", files);
  ASSERT_TRUE(Put(state, Completed(1)));
  const std::string before = Slurp(state.path());
  Status result;
  state.Transact(
      [](Checkpoint& checkpoint) {
        checkpoint.claims.clear();
        return Status(Fail(ErrorCode::kInternal, "no"));
      },
      [&](Status done) { result = std::move(done); });
  EXPECT_FALSE(result);
  EXPECT_EQ(Slurp(state.path()), before);
  EXPECT_EQ(state.last().claims.size(), 1u);
}

TEST_F(NodeStateTest, the_lock_of_another_process_is_awaited_but_not_for_ever) {
  NodeState state(executor, plugin_dir, "boot-1", files);
  FileLock other(plugin_dir / "serialize.lock");
  ASSERT_TRUE(other.TryLock().value());
  int done = 0;
  Status result;
  const auto count = [&](Status s) {
    ++done;
    result = std::move(s);
  };
  state.Transact([](Checkpoint&) { return Status{}; }, count);
  executor.Advance(Duration(5'000));
  EXPECT_EQ(done, 0);
  other.Unlock();
  executor.Advance(Duration(10));
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(result);

  ASSERT_TRUE(other.TryLock().value());
  state.Transact([](Checkpoint&) { return Status{}; }, count);
  executor.Advance(Duration(10'100));
  EXPECT_EQ(done, 2);
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(result.error().message, HasSubstr("another process holds the node lock for more than 10 s"));
}

TEST_F(NodeStateTest, another_boot_drops_everything_held) {
  {
    NodeState state(executor, plugin_dir, "boot-1", files);
    ASSERT_TRUE(Put(state, Completed(1)));
  }
  NodeState rebooted(executor, plugin_dir, "boot-2", files);
  rebooted.Refresh();
  EXPECT_THAT(rebooted.last().claims, IsEmpty());
  EXPECT_EQ(rebooted.last().boot_id, "boot-2");
}

TEST_F(NodeStateTest, a_damaged_checkpoint_is_kept_aside_and_what_it_held_stays_held) {
  {
    NodeState state(executor, plugin_dir, "boot-1", files);
    ASSERT_TRUE(Put(state, Completed(1)));
    ASSERT_TRUE(Put(state, Completed(2)));
    ASSERT_TRUE(files.RemoveCdiSpec(ClaimUid(2)));  // unprepared; its processes may live
  }
  dir.Write("plugin/checkpoint.json", "{\"version\":1,\"claims\":[{\"cl");
  NodeState state(executor, plugin_dir, "boot-1", files);
  state.Refresh();
  ASSERT_NE(FindCompleted(state.last(), ClaimUid(1)), nullptr);
  EXPECT_EQ(*FindCompleted(state.last(), ClaimUid(1)), Completed(1));
  EXPECT_EQ(state.last().lingering.at(ClaimUid(2)), *Completed(2).grant);
  ASSERT_EQ(DamagedFiles().size(), 1u);
  EXPECT_THAT(DamagedFiles()[0], HasSubstr("{\"cl"));
  EXPECT_TRUE(DecodeCheckpoint(Slurp(state.path())));
}

struct ForeignCheckpoint {
  const char* name;
  const char* text;
  const char* claim;  // that it names; empty: it stands in nobody's way
};

class GoDriverTest : public NodeStateTest, public ::testing::WithParamInterface<ForeignCheckpoint> {};

TEST_P(GoDriverTest, what_it_has_prepared_is_neither_lost_nor_overlooked) {
  dir.Write("plugin/checkpoint.json", GetParam().text);
  NodeState state(executor, plugin_dir, "boot-1", files);
  const Status done = Put(state, Completed(1));
  if (*GetParam().claim == '\0') {
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_THAT(DamagedFiles(), ::testing::ElementsAre(GetParam().text));
    return;
  }
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(done.error().message,
              ::testing::AllOf(HasSubstr("checkpoint.json is the checkpoint of another driver of this name"),
                               HasSubstr(GetParam().claim), HasSubstr("delete their pods")));
  EXPECT_EQ(Slurp(state.path()), GetParam().text) << "left for the driver that wrote it";
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GoDriverTest,
    ::testing::Values(
        ForeignCheckpoint{"first_form", R"({"checksum":1,"v1":{"preparedClaims":{"uid-1":{}}}})", "uid-1"},
        ForeignCheckpoint{
            "both_forms",
            R"({"checksum":1,"v1":{},"v2":{"checksum":2,"preparedClaims":{"uid-2":{"checkpointState":"PrepareCompleted"}}}})",
            "uid-2"},
        ForeignCheckpoint{"this_boot", R"({"checksum":1,"v2":{"preparedClaims":{"uid-3":{}},"nodeBootID":"boot-1"}})", "uid-3"},
        ForeignCheckpoint{"boot_before", R"({"checksum":1,"v2":{"preparedClaims":{"uid-3":{}},"nodeBootID":"boot-0"}})", ""},
        ForeignCheckpoint{"nothing_prepared", R"({"checksum":1,"v1":{},"v2":{"checksum":2}})", ""}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(NodeStateTest, a_lost_checkpoint_is_rebuilt_from_the_markers) {
  {
    NodeState state(executor, plugin_dir, "boot-1", files);
    ASSERT_TRUE(Put(state, Completed(1)));
  }
  std::filesystem::remove(plugin_dir / "checkpoint.json");
  NodeState state(executor, plugin_dir, "boot-1", files);
  state.Refresh();
  EXPECT_NE(FindCompleted(state.last(), ClaimUid(1)), nullptr);
  EXPECT_THAT(DamagedFiles(), IsEmpty());
}

// Containers hold what they were given, whatever people delete.
TEST_F(NodeStateTest, what_an_instance_knows_outlives_the_plugins_directory) {
  NodeState state(executor, plugin_dir, "boot-1", files);
  ASSERT_TRUE(Put(state, Completed(1)));
  ASSERT_TRUE(Put(state, Completed(2)));
  ASSERT_TRUE(
      files.RemoveCdiSpec(ClaimUid(2)));  // unprepared by another instance, which wrote that down in the file that is lost
  state.Transact(
      [](Checkpoint& checkpoint) {
        Unprepare(checkpoint, ClaimUid(3));
        checkpoint.lingering[ClaimUid(4)] = *Completed(4).grant;
        return Status{};
      },
      [](const Status&) {});
  const auto held = HeldChannels(state.last());
  for (const auto& entry : std::filesystem::directory_iterator(plugin_dir)) std::filesystem::remove_all(entry.path());
  state.Refresh();
  const Checkpoint& known = state.last();
  EXPECT_NE(FindCompleted(known, ClaimUid(1)), nullptr);
  EXPECT_TRUE(std::filesystem::exists(plugin_dir / "claims" / (ClaimUid(1) + ".json")));
  EXPECT_EQ(FindCompleted(known, ClaimUid(2)), nullptr);
  EXPECT_TRUE(known.lingering.contains(ClaimUid(2)) && known.lingering.contains(ClaimUid(4)));
  EXPECT_TRUE(known.unprepared.contains(ClaimUid(3))) << "a Prepare from before must still not complete";
  EXPECT_EQ(HeldChannels(known), held);
}

// A report that still lists it must not be counted on by the next Prepare.
TEST_F(NodeStateTest, channel_that_was_being_withdrawn_or_only_announced_is_withdrawn_when_the_directory_is_lost) {
  NodeState state(executor, plugin_dir, "boot-1", files);
  const api::NodeChannel withdrawn{kDomainUid, 8, kBlueUid, kDomain};
  ClaimEntry announced = Completed(1);
  announced.phase = ClaimPhase::kStarted;
  state.Transact(
      [&](Checkpoint& checkpoint) {
        checkpoint.withdrawing.insert(withdrawn);
        checkpoint.claims[ClaimUid(1)] = announced;
        return Status{};
      },
      [](const Status&) {});
  for (const auto& entry : std::filesystem::directory_iterator(plugin_dir)) std::filesystem::remove_all(entry.path());
  state.Refresh();
  EXPECT_THAT(HeldChannels(state.last()), IsEmpty());
  EXPECT_TRUE(state.last().withdrawing.contains(withdrawn));
  EXPECT_TRUE(state.last().withdrawing.contains(announced.grant->Reported()));
}

TEST_F(NodeStateTest, a_directory_that_cannot_be_read_changes_nothing_that_is_known) {
  NodeState state(executor, plugin_dir, "boot-1", files);
  ASSERT_TRUE(Put(state, Completed(1)));
  std::filesystem::remove_all(plugin_dir);
  state.Refresh();
  EXPECT_NE(FindCompleted(state.last(), ClaimUid(1)), nullptr);
}

TEST_F(NodeStateTest, changes_are_told_once_and_after_the_lock_is_free) {
  NodeState state(executor, plugin_dir, "boot-1", files);
  int changes = 0;
  state.OnChange([&] {
    ++changes;
    FileLock other(plugin_dir / "serialize.lock");
    EXPECT_TRUE(other.TryLock().value());
  });
  state.Refresh();  // from nothing to the empty checkpoint of this boot
  ASSERT_TRUE(Put(state, Completed(1)));
  state.Refresh();
  EXPECT_EQ(changes, 2);
}

}  // namespace
}  // namespace cd::plugin
