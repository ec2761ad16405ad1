// When a channel stops being held: the processes of the claim's containers decide, nothing else.
#include "src/plugin/linger_watch.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/plugin/prepare_fixture.h"
#include "src/plugin/process_scan.h"

namespace cd::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string MountInfo(const std::string& root, const std::string& at) {
  return "22 1 0:20 / /proc rw - proc proc rw\n500 400 8:1 " + root + " " + at + " ro,nosuid,nodev - ext4 /dev/sda1 rw\n";
}

TEST(Mountinfo, marker_is_found_by_the_tail_of_its_source) {
  const std::string uid = ClaimUid(1);
  const std::string root = "/var/lib/kubelet/plugins/compute-domain.nvidia.com/claims/" + uid + ".json";
  EXPECT_THAT(MarkersIn(MountInfo(root, "/run/compute-domain/" + uid + ".json")), ElementsAre(uid));
  // The plugin's directory may be a mount of its own, the container may not be set up yet, the file may be gone.
  EXPECT_THAT(MarkersIn(MountInfo("/claims/" + uid + ".json", "/run/c/rootfs/run/x")), ElementsAre(uid));
  EXPECT_THAT(MarkersIn(MountInfo(root + "//deleted", "/run/compute-domain/" + uid + ".json")), ElementsAre(uid));
}

TEST(Mountinfo, other_files_and_broken_lines_are_no_markers) {
  EXPECT_THAT(MarkersIn(MountInfo("/other/" + ClaimUid(1) + ".json", "/x")), IsEmpty());
  EXPECT_THAT(MarkersIn(MountInfo("/noclaims/" + ClaimUid(1) + ".json", "/x")), IsEmpty());
  EXPECT_THAT(MarkersIn(MountInfo("/claims/" + ClaimUid(1) + ".txt", "/x")), IsEmpty());
  EXPECT_THAT(MarkersIn("garbage\n\n   \n1 2"), IsEmpty());
  EXPECT_THAT(MarkersIn(""), IsEmpty());
}

// A /proc of plain files.
class FakeProc {
 public:
  void Add(int pid, const std::string& ns, const std::string& mountinfo, const std::string& root = "/",
           const std::string& cgroup = "0::/system.slice") {
    const std::string process = std::to_string(pid);
    dir.Write(process + "/mountinfo", mountinfo);
    dir.Write(process + "/cgroup", cgroup);
    std::filesystem::create_directories(dir.path() / process / "ns");
    std::filesystem::create_symlink(ns, dir.path() / process / "ns/mnt");
    std::filesystem::create_symlink(root, dir.path() / process / "root");
  }
  std::vector<pid_t> Holders(int claim) {
    auto found = ScanProcesses(dir.path(), {ClaimUid(claim)});
    EXPECT_TRUE(found);
    std::vector<pid_t> pids = found ? (*found)[ClaimUid(claim)] : std::vector<pid_t>{};
    std::sort(pids.begin(), pids.end());
    return pids;
  }
  TempDir dir;
  const std::string with_marker = MountInfo("/plugin/claims/" + ClaimUid(1) + ".json", "/run/compute-domain/x");
  const std::string without = MountInfo("/", "/");
};

constexpr char kPodCgroup[] = "0::/../besteffort/pod0f3a1c4e-0000-4000-8000-00000000c11c/abc";

TEST(ProcessScan, every_process_of_a_namespace_with_the_marker_holds_the_claim) {
  FakeProc proc;
  proc.Add(100, "mnt:[1]", proc.with_marker);
  proc.Add(101, "mnt:[1]", proc.with_marker);
  proc.Add(102, "mnt:[2]", proc.without);
  proc.dir.Write("meminfo", "");
  EXPECT_THAT(proc.Holders(1), ElementsAre(100, 101));
  EXPECT_THAT(proc.Holders(2), IsEmpty());
}

TEST(ProcessScan, process_that_changed_its_root_hides_nothing_beside_others) {
  FakeProc proc;
  proc.Add(100, "mnt:[1]", proc.without, "/jail", kPodCgroup);
  proc.Add(101, "mnt:[1]", proc.with_marker, "/", kPodCgroup);
  EXPECT_THAT(proc.Holders(1), ElementsAre(100, 101));
}

TEST(ProcessScan, process_of_a_pod_that_hides_its_mounts_alone_holds_until_it_ends) {
  FakeProc proc;
  proc.Add(100, "mnt:[1]", proc.without, "/jail", kPodCgroup);
  proc.Add(101, "mnt:[2]", proc.without, "/srv/daemon");  // of the host
  EXPECT_THAT(proc.Holders(1), ElementsAre(100));
}

TEST(ProcessScan, proc_that_cannot_be_read_is_an_error_not_an_empty_answer) {
  EXPECT_FALSE(ScanProcesses("/nonexistent/proc", {ClaimUid(1)}));
}

class FakeProcesses final : public Processes {
 public:
  Result<std::map<std::string, std::vector<pid_t>>> Holders(const std::set<std::string>& claims) override {
    ++scans;
    if (broken) return Fail(ErrorCode::kInternal, "/proc is hidden");
    std::map<std::string, std::vector<pid_t>> found;
    for (const auto& [uid, pids] : living) {
      if (claims.contains(uid) && !pids.empty()) found[uid] = {pids.begin(), pids.end()};
    }
    return found;
  }
  Following Follow(pid_t pid, std::function<void()> ended) override {
    followed[pid] = std::move(ended);
    return Following::kFollowed;
  }
  void Forget(pid_t pid) override { followed.erase(pid); }
  void End(pid_t pid) {
    for (auto& [uid, pids] : living) pids.erase(pid);
    auto node = followed.extract(pid);
    if (!node.empty()) node.mapped()();
  }
  std::map<std::string, std::set<pid_t>> living;
  std::map<pid_t, std::function<void()>> followed;
  int scans = 0;
  bool broken = false;
};

class LingerWatchTest : public ::testing::Test {
 protected:
  LingerWatchTest() {
    WriteDriver(dir);
    EXPECT_TRUE(files.MakeDirectories());
    state.OnChange([this] { watch.CheckpointChanged(); });
    watch.Start();
  }
  void Linger(int n) {
    state.Transact(
        [&](Checkpoint& checkpoint) {
          ClaimEntry entry;
          entry.claim = ClaimRef(n);
          entry.phase = ClaimPhase::kCompleted;
          entry.grant = Grant{kDomain, kDomainUid, kDomain, 7, {"red-ns", "red", kRedUid}};
          EXPECT_TRUE(files.Write(entry));
          checkpoint.claims[entry.claim.uid] = entry;
          Unprepare(checkpoint, entry.claim.uid);
          return Status{};
        },
        [](Status done) { EXPECT_TRUE(done); });
    executor.Advance(Duration(0));
  }
  bool Held(int n) { return state.last().lingering.contains(ClaimUid(n)); }
  bool Marker(int n) { return std::filesystem::exists(dir.path() / "plugin/claims" / (ClaimUid(n) + ".json")); }

  TempDir dir;
  ManualExecutor executor;
  ClaimFiles files{PathsIn(dir)};
  NodeState state{executor, dir.path() / "plugin", "boot-1", files};
  FakeProcesses processes;
  LingerWatch watch{executor, state, files, processes};
};

TEST_F(LingerWatchTest, claim_without_processes_is_over_at_once) {
  Linger(1);
  EXPECT_FALSE(Held(1));
  EXPECT_FALSE(Marker(1));
  EXPECT_EQ(state.last().withdrawing.size(), 1u);
}

TEST_F(LingerWatchTest, claim_is_held_until_its_last_process_ended_and_nobody_polls_meanwhile) {
  processes.living[ClaimUid(1)] = {100, 101};
  Linger(1);
  const int scans = processes.scans;
  executor.Advance(Duration(600'000));
  EXPECT_TRUE(Held(1));
  EXPECT_TRUE(Marker(1));
  EXPECT_EQ(processes.scans, scans);
  processes.End(100);
  executor.Advance(Duration(0));
  EXPECT_TRUE(Held(1));
  processes.End(101);
  executor.Advance(Duration(0));
  EXPECT_FALSE(Held(1));
  EXPECT_FALSE(Marker(1));
}

TEST_F(LingerWatchTest, child_that_outlives_the_known_processes_is_found_by_looking_again) {
  processes.living[ClaimUid(1)] = {100};
  Linger(1);
  processes.living[ClaimUid(1)].insert(200);  // forked after the scan
  processes.End(100);
  executor.Advance(Duration(0));
  EXPECT_TRUE(Held(1));
  processes.End(200);
  executor.Advance(Duration(0));
  EXPECT_FALSE(Held(1));
}

TEST_F(LingerWatchTest, one_claim_does_not_wait_for_the_processes_of_another) {
  processes.living[ClaimUid(1)] = {100};
  processes.living[ClaimUid(2)] = {200};
  Linger(1);
  Linger(2);
  processes.End(200);
  executor.Advance(Duration(0));
  EXPECT_TRUE(Held(1));
  EXPECT_FALSE(Held(2));
}

TEST_F(LingerWatchTest, hidden_processes_keep_the_channel_held_until_they_can_be_seen) {
  processes.broken = true;
  Linger(1);
  executor.Advance(Duration(20'000));
  EXPECT_TRUE(Held(1));
  processes.broken = false;
  executor.Advance(Duration(5'000));
  EXPECT_FALSE(Held(1));
}

TEST_F(LingerWatchTest, marker_of_a_claim_prepared_again_stays) {
  processes.living[ClaimUid(1)] = {100};
  Linger(1);
  state.Transact(
      [&](Checkpoint& checkpoint) {
        ClaimEntry entry;
        entry.claim = ClaimRef(1);
        entry.phase = ClaimPhase::kStarted;
        entry.grant = Grant{kDomain, kDomainUid, kDomain, 7, {"red-ns", "red", kRedUid}};
        checkpoint.claims[entry.claim.uid] = entry;
        return Status{};
      },
      [](Status done) { EXPECT_TRUE(done); });
  processes.End(100);
  executor.Advance(Duration(0));
  EXPECT_TRUE(Marker(1));
}

TEST(KernelProcessesTest, end_of_a_real_process_is_told_on_the_loop) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  EventLoop loop;
  KernelProcesses processes(loop, "/proc");
  ASSERT_EQ(processes.Follow(child, [&] { loop.Stop(); }), Processes::Following::kFollowed);
  loop.Post([&] { ::kill(child, SIGKILL); });
  loop.Run();
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(processes.Follow(child, [] {}), Processes::Following::kEnded);
}

}  // namespace
}  // namespace cd::plugin
