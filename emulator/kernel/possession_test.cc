#include "emulator/kernel/possession.h"

#include <gtest/gtest.h>

#include "emulator/kernel/proc_files.h"

namespace emu::kernel {
namespace {

constexpr const char* kHybridMounts =
    "24 1 0:22 / /proc rw - proc proc rw\n"
    "30 1 0:26 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    "31 1 0:27 / /sys/fs/cgroup/devices rw shared:10 shared:11 - cgroup cgroup rw,devices\n";
constexpr const char* kUnifiedMounts = "30 1 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n";

TEST(DeviceCgroup, v1_devices_hierarchy_decides_where_it_exists) {
  EXPECT_EQ(*DeviceCgroupProcs("9:name=systemd:/s\n5:devices:/kubepods/pod1/c1\n0::/u\n", kHybridMounts),
            "/sys/fs/cgroup/devices/kubepods/pod1/c1/cgroup.procs");
}

TEST(DeviceCgroup, devices_may_share_a_hierarchy) {
  EXPECT_EQ(*DeviceCgroupProcs("5:cpu,devices:/a\n", "31 1 0:27 / /cg rw - cgroup cgroup rw,cpu,devices\n"),
            "/cg/a/cgroup.procs");
}

TEST(DeviceCgroup, unified_hierarchy_otherwise) {
  EXPECT_EQ(*DeviceCgroupProcs("0::/kubepods.slice/c1\n", kUnifiedMounts), "/sys/fs/cgroup/kubepods.slice/c1/cgroup.procs");
}

TEST(DeviceCgroup, root_of_the_hierarchy) {
  EXPECT_EQ(*DeviceCgroupProcs("5:devices:/\n", kHybridMounts), "/sys/fs/cgroup/devices/cgroup.procs");
}

TEST(DeviceCgroup, mounted_part_of_a_hierarchy) {
  const char* mounts = "31 1 0:27 /outer /cg rw - cgroup cgroup rw,devices\n";
  EXPECT_EQ(*DeviceCgroupProcs("5:devices:/outer/c1\n", mounts), "/cg/c1/cgroup.procs");
  EXPECT_FALSE(DeviceCgroupProcs("5:devices:/elsewhere/c1\n", mounts));
}

TEST(DeviceCgroup, none_is_an_error_not_a_permission) {
  EXPECT_FALSE(DeviceCgroupProcs("", kHybridMounts));
  EXPECT_FALSE(DeviceCgroupProcs("5:devices:/a\n", ""));
}

TEST(ProcDevices, driver_majors_end_the_character_section) {
  EXPECT_EQ(DevicesFile("Character devices:\n  1 mem\n\nBlock devices:\n  7 loop\n", 501, 502, true),
            "Character devices:\n  1 mem\n502 nvidia-caps\n501 nvidia-caps-imex-channels\n\nBlock devices:\n  7 loop\n");
}

TEST(ProcDevices, no_channel_major_when_the_feature_is_off) {
  EXPECT_EQ(DevicesFile("Character devices:\n\nBlock devices:\n", 501, 52, false),
            "Character devices:\n 52 nvidia-caps\n\nBlock devices:\n");
}

}  // namespace
}  // namespace emu::kernel
