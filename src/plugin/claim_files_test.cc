// CDI specs and markers as containers and the container runtime see them.
#include "src/plugin/claim_files.h"

#include <gmock/gmock.h>

#include <set>

#include <regex>

#include "src/plugin/prepare_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ClaimEntry ChannelEntry(int n) {
  ClaimEntry entry;
  entry.claim = ClaimRef(n);
  entry.phase = ClaimPhase::kCompleted;
  entry.grant = Grant{kDomain, kDomainUid, kDomain, 7, {"red-ns", "red", kRedUid}};
  entry.devices = {{"channel", kNode, "channel-0", "share-1"}};
  return entry;
}

ClaimEntry DaemonEntry(int n) {
  ClaimEntry entry;
  entry.claim = ClaimRef(n, "computedomain-system");
  entry.phase = ClaimPhase::kCompleted;
  entry.devices = {{"daemon", kNode, "daemon", std::nullopt}};
  return entry;
}

class ClaimFilesTest : public ::testing::Test {
 protected:
  ClaimFilesTest() {
    WriteDriver(dir);
    EXPECT_TRUE(files.MakeDirectories());
  }
  std::filesystem::path CdiPath(int n) {
    return dir.path() / "cdi" / ("compute-domain.nvidia.com-claim_" + ClaimUid(n) + ".json");
  }
  std::filesystem::path MarkerPath(int n) { return dir.path() / "plugin" / "claims" / (ClaimUid(n) + ".json"); }
  nlohmann::json Spec(int n) { return nlohmann::json::parse(Slurp(CdiPath(n))); }

  TempDir dir;
  ClaimFiles files{PathsIn(dir)};
};

// What the CDI 0.5.0 schema asks for, as far as a spec of ours can break it.
void ExpectValidCdi(const nlohmann::json& spec) {
  EXPECT_EQ(spec["cdiVersion"], "0.5.0");
  EXPECT_TRUE(std::regex_match(spec["kind"].get<std::string>(), std::regex("[a-z0-9.-]+/[A-Za-z0-9_-]+")));
  ASSERT_EQ(spec["devices"].size(), 1u);
  const auto& device = spec["devices"][0];
  EXPECT_TRUE(std::regex_match(device["name"].get<std::string>(), std::regex("[A-Za-z0-9][A-Za-z0-9_.:-]*")));
  const auto& edits = device["containerEdits"];
  for (const auto& [key, value] : edits.items()) {
    EXPECT_THAT((std::vector<std::string>{"env", "deviceNodes", "mounts"}), Contains(key));
    EXPECT_TRUE(value.is_array());
  }
  for (const auto& node : edits.value("deviceNodes", nlohmann::json::array())) {
    EXPECT_EQ(node["type"], "c");
    EXPECT_TRUE(node["major"].is_number_unsigned());
    EXPECT_TRUE(node["minor"].is_number());
    EXPECT_EQ(node["path"].get<std::string>().rfind("/dev/", 0), 0u);
    EXPECT_EQ(node["permissions"], "rw");
  }
  for (const auto& mount : edits["mounts"]) {
    EXPECT_EQ(mount["hostPath"].get<std::string>()[0], '/');
    EXPECT_EQ(mount["containerPath"].get<std::string>()[0], '/');
    EXPECT_THAT(mount["options"], Contains("bind"));
  }
  if (edits.contains("env")) {
    for (const auto& variable : edits["env"]) EXPECT_NE(variable.get<std::string>().find('='), std::string::npos);
  }
}

TEST_F(ClaimFilesTest, without_fabric_the_environment_says_so_and_there_is_no_device) {
  ClaimEntry entry = ChannelEntry(1);
  entry.grant = Grant{"", "", "", 0, {"red-ns", "red", kRedUid}};
  std::filesystem::remove(dir.path() / "devices");
  ASSERT_TRUE(files.Write(entry)) << "needs no channel major";
  ExpectValidCdi(Spec(1));
  const auto edits = Spec(1)["devices"][0]["containerEdits"];
  EXPECT_EQ(edits["env"], nlohmann::json({"NVIDIA_COMPUTE_DOMAIN=red-ns/red", std::string("NVIDIA_COMPUTE_DOMAIN_UID=") + kRedUid,
                                          "NVIDIA_COMPUTE_DOMAIN_FABRIC=false"}));
  EXPECT_FALSE(edits.contains("deviceNodes"));
  std::vector<std::string> unreadable;
  EXPECT_EQ(files.Rebuild(unreadable).claims.at(ClaimUid(1)).grant, entry.grant);
  ASSERT_TRUE(files.RemoveCdiSpec(ClaimUid(1)));
  EXPECT_TRUE(files.Rebuild(unreadable).lingering.empty()) << "nothing lingers that holds nothing";
}

TEST_F(ClaimFilesTest, channel_spec_gives_one_device_node_and_the_marker) {
  ASSERT_TRUE(files.Write(ChannelEntry(1)));
  const auto spec = Spec(1);
  ExpectValidCdi(spec);
  EXPECT_EQ(std::string(spec["kind"]) + "=" + std::string(spec["devices"][0]["name"]), CdiDeviceId(ClaimUid(1)));
  const auto& edits = spec["devices"][0]["containerEdits"];
  ASSERT_EQ(edits["deviceNodes"].size(), 1u);
  EXPECT_EQ(edits["deviceNodes"][0], nlohmann::json({{"path", "/dev/nvidia-caps-imex-channels/channel7"},
                                                     {"type", "c"},
                                                     {"major", 234},
                                                     {"minor", 7},
                                                     {"fileMode", 0666},
                                                     {"permissions", "rw"}}));
  ASSERT_EQ(edits["mounts"].size(), 1u);
  EXPECT_EQ(edits["mounts"][0]["hostPath"], MarkerPath(1).string());
  EXPECT_EQ(edits["mounts"][0]["containerPath"], "/run/compute-domain/" + ClaimUid(1) + ".json");
  EXPECT_THAT(edits["mounts"][0]["options"], Contains("ro"));
  EXPECT_THAT(edits["env"], Contains("NVIDIA_COMPUTE_DOMAIN_CHANNEL=7"));
}

TEST_F(ClaimFilesTest, all_channels_are_those_the_kernel_driver_has) {
  ClaimEntry entry = ChannelEntry(1);
  entry.grant->all_channels = true;
  ASSERT_TRUE(files.Write(entry));
  const auto spec = Spec(1);
  ExpectValidCdi(spec);
  const auto& edits = spec["devices"][0]["containerEdits"];
  std::vector<int> channels;
  for (const auto& node : edits["deviceNodes"]) channels.push_back(node["minor"]);
  EXPECT_EQ(channels, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(edits["deviceNodes"][3]["path"], "/dev/nvidia-caps-imex-channels/channel3");
  EXPECT_THAT(edits["env"], Contains("NVIDIA_COMPUTE_DOMAIN_CHANNEL=0-3"));
}

TEST_F(ClaimFilesTest, all_channels_are_refused_where_the_driver_does_not_say_how_many_there_are) {
  dir.Write("params", "EnableMSI: 1\n");
  ClaimEntry entry = ChannelEntry(1);
  entry.grant->all_channels = true;
  const Status written = files.Write(entry);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(written.error().message,
              ::testing::AllOf(HasSubstr("the number of IMEX channels is unknown"), HasSubstr("ImexChannelCount")));
  EXPECT_TRUE(files.Write(ChannelEntry(2))) << "a single channel needs no count";
}

TEST_F(ClaimFilesTest, major_is_read_anew_for_every_spec) {
  ASSERT_TRUE(files.Write(ChannelEntry(1)));
  dir.Write("devices", "Character devices:\n777 nvidia-caps-imex-channels\n");
  ASSERT_TRUE(files.Write(ChannelEntry(1)));
  EXPECT_EQ(Spec(1)["devices"][0]["containerEdits"]["deviceNodes"][0]["major"], 777);
}

TEST_F(ClaimFilesTest, marker_is_readable_for_every_user_and_keeps_its_inode) {
  ASSERT_TRUE(files.Write(ChannelEntry(1)));
  struct stat before;
  ASSERT_EQ(::stat(MarkerPath(1).c_str(), &before), 0);
  EXPECT_EQ(before.st_mode & 0777, 0644u);
  ASSERT_TRUE(files.Write(ChannelEntry(1)));
  struct stat after;
  ASSERT_EQ(::stat(MarkerPath(1).c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
}

TEST_F(ClaimFilesTest, daemon_spec_gives_the_capability_the_programs_and_the_two_directories) {
  ASSERT_TRUE(files.Write(DaemonEntry(3)));
  const auto spec = Spec(3);
  ExpectValidCdi(spec);
  const auto& edits = spec["devices"][0]["containerEdits"];
  EXPECT_EQ(edits["deviceNodes"][0]["path"], "/dev/nvidia-caps/nvidia-cap2");
  EXPECT_EQ(edits["deviceNodes"][0]["major"], 235);
  EXPECT_EQ(edits["deviceNodes"][0]["minor"], 2);
  EXPECT_EQ(edits["deviceNodes"][0]["fileMode"], 0400);
  std::map<std::string, std::string> mounts;
  for (const auto& mount : edits["mounts"]) {
    mounts[mount["containerPath"]] = mount["hostPath"];
    const bool writable = mount["containerPath"] == "/imexd/status";
    EXPECT_THAT(mount["options"], Contains(writable ? "rw" : "ro"));
  }
  EXPECT_EQ(mounts.at("/imexd/desired"), (dir.path() / "plugin/daemon/desired").string());
  EXPECT_EQ(mounts.at("/imexd/status"), (dir.path() / "plugin/daemon/status").string());
  // As the host sees them, not as this process does.
  EXPECT_EQ(mounts.at("/usr/bin/nvidia-imex"), "/run/nvidia/driver/usr/bin/nvidia-imex");
  EXPECT_EQ(mounts.at("/usr/bin/nvidia-imex-ctl"), "/run/nvidia/driver/usr/bin/nvidia-imex-ctl");
}

TEST_F(ClaimFilesTest, imex_is_found_in_other_folders_of_the_driver_root) {
  std::filesystem::create_directories(dir.path() / "driver/opt/bin");
  for (const char* program : {"nvidia-imex", "nvidia-imex-ctl"}) {
    std::filesystem::rename(dir.path() / "driver/usr/bin" / program, dir.path() / "driver/opt/bin" / program);
  }
  ASSERT_TRUE(files.Write(DaemonEntry(3)));
  std::set<std::string> hosts;
  const auto spec = Spec(3);
  for (const auto& mount : spec["devices"][0]["containerEdits"]["mounts"]) {
    if (mount["containerPath"].get<std::string>().starts_with("/usr/bin/")) hosts.insert(mount["hostPath"]);
  }
  EXPECT_EQ(hosts,
            (std::set<std::string>{"/run/nvidia/driver/opt/bin/nvidia-imex", "/run/nvidia/driver/opt/bin/nvidia-imex-ctl"}));
}

TEST_F(ClaimFilesTest, node_without_imex_says_what_to_install) {
  std::filesystem::remove(dir.path() / "driver/usr/bin/nvidia-imex-ctl");
  const auto written = files.Write(DaemonEntry(3));
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message,
              HasSubstr("nvidia-imex-ctl is missing below /run/nvidia/driver (looked in usr/bin, usr/sbin, "
                        "bin, sbin, opt/bin): install the IMEX package beside the driver"));
  EXPECT_FALSE(std::filesystem::exists(CdiPath(3)));
}

TEST_F(ClaimFilesTest, daemon_without_the_kernel_driver_says_what_is_missing) {
  dir.Write("devices", "Character devices:\n  1 mem\n");
  const auto written = files.Write(DaemonEntry(3));
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("IMEX capability device: "));
}

TEST_F(ClaimFilesTest, uid_that_is_no_file_name_removes_nothing) {
  dir.Write("plugin/precious.json", "x");
  EXPECT_TRUE(files.RemoveMarker("../precious"));
  EXPECT_TRUE(files.RemoveCdiSpec("../../plugin/precious"));
  EXPECT_TRUE(std::filesystem::exists(dir.path() / "plugin/precious.json"));
}

TEST_F(ClaimFilesTest, strays_go_and_what_is_known_stays) {
  for (int n : {1, 2, 3}) ASSERT_TRUE(files.Write(ChannelEntry(n)));
  dir.Write("cdi/other-vendor.json", "{}");
  Checkpoint checkpoint;
  checkpoint.claims[ClaimUid(1)] = ChannelEntry(1);
  checkpoint.lingering[ClaimUid(2)] = *ChannelEntry(2).grant;
  files.RemoveStrays(checkpoint);
  EXPECT_TRUE(std::filesystem::exists(CdiPath(1)));
  EXPECT_TRUE(std::filesystem::exists(MarkerPath(1)));
  EXPECT_FALSE(std::filesystem::exists(CdiPath(2)));
  EXPECT_TRUE(std::filesystem::exists(MarkerPath(2)));
  EXPECT_FALSE(std::filesystem::exists(CdiPath(3)));
  EXPECT_FALSE(std::filesystem::exists(MarkerPath(3)));
  EXPECT_TRUE(std::filesystem::exists(dir.path() / "cdi/other-vendor.json"));
}

TEST_F(ClaimFilesTest, rebuilt_checkpoint_names_what_it_could_not_read) {
  ASSERT_TRUE(files.Write(ChannelEntry(1)));
  dir.Write("plugin/claims/" + ClaimUid(2) + ".json", "not json");
  dir.Write("plugin/claims/" + ClaimUid(3) + ".json", Slurp(MarkerPath(1)));  // another claim's content
  std::vector<std::string> unreadable;
  const Checkpoint rebuilt = files.Rebuild(unreadable);
  EXPECT_EQ(rebuilt.claims.size(), 1u);
  EXPECT_THAT(rebuilt.lingering, IsEmpty());
  EXPECT_THAT(unreadable, ::testing::UnorderedElementsAre(MarkerPath(2).string(), MarkerPath(3).string()));
}

TEST_F(ClaimFilesTest, deleted_directories_are_made_anew) {
  for (const auto& entry : std::filesystem::directory_iterator(dir.path() / "plugin")) std::filesystem::remove_all(entry.path());
  std::filesystem::remove_all(PathsIn(dir).cdi_dir);
  ASSERT_TRUE(files.Write(ChannelEntry(1)));
  EXPECT_TRUE(files.HasCdiSpec(ClaimUid(1)));
  std::filesystem::remove_all(dir.path() / "plugin" / "daemon");
  ASSERT_TRUE(files.Write(DaemonEntry(2)));
  EXPECT_TRUE(std::filesystem::exists(dir.path() / "plugin" / "daemon" / "desired"));
}

}  // namespace
}  // namespace cd::plugin
