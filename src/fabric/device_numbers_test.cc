#include "src/fabric/device_numbers.h"

#include <gtest/gtest.h>

#include "src/base/files.h"
#include "src/base/temp_dir.h"

namespace cd::fabric {
namespace {

constexpr char kDevices[] =
    "Character devices:\n  1 mem\n 10 misc\n195 nvidia-frontend\n234 nvidia-caps-imex-channels\n235 nvidia-caps\n\n"
    "Block devices:\n  8 sd\n259 blkext\n";

TEST(FindCharacterMajor, reads_the_majors_of_a_loaded_driver) {
  EXPECT_EQ(FindCharacterMajor(kDevices, kChannelDevices), 234u);
  EXPECT_EQ(FindCharacterMajor(kDevices, kCapabilityDevices), 235u);
}

struct TextCase {
  const char* name;
  std::string text;
  Result<std::uint32_t> expected;
};

TEST(FindCharacterMajor, tolerates_and_refuses) {
  const auto invalid = Result<std::uint32_t>(Fail(ErrorCode::kInvalidArgument, ""));
  const auto absent = Result<std::uint32_t>(Fail(ErrorCode::kNotFound, ""));
  const TextCase cases[] = {
      {"block_section_first", "Block devices:\n  8 sd\n\nCharacter devices:\n240 nvidia-caps\n", 240u},
      {"no_block_section", "Character devices:\n240 nvidia-caps\n", 240u},
      {"no_final_newline", "Character devices:\n240 nvidia-caps", 240u},
      {"odd_spacing", "Character devices:\n \t 240 \t nvidia-caps  \r\n", 240u},
      {"nonsense_lines_are_passed_over", "Character devices:\n\nxyz\n12\n \n240 nvidia-caps\n", 240u},
      {"dynamic_majors_above_255", "Character devices:\n510 nvidia-caps\n", 510u},
      {"name_in_the_block_section_only", "Character devices:\n1 mem\nBlock devices:\n240 nvidia-caps\n", absent},
      {"longer_name_is_another_device", "Character devices:\n240 nvidia-caps-imex-channels\n", absent},
      {"shorter_name_is_another_device", "Character devices:\n240 nvidia-cap\n", absent},
      {"no_section_header", "240 nvidia-caps\n", absent},
      {"empty", "", absent},
      {"bogus_major", "Character devices:\n9999 nvidia-caps\n", invalid},
      {"major_zero", "Character devices:\n0 nvidia-caps\n", invalid},
      {"negative", "Character devices:\n-1 nvidia-caps\n", invalid},
      {"beyond_64_bits", "Character devices:\n99999999999999999999999 nvidia-caps\n", invalid},
  };
  for (const TextCase& c : cases) {
    SCOPED_TRACE(c.name);
    const auto major = FindCharacterMajor(c.text, kCapabilityDevices);
    ASSERT_EQ(major.has_value(), c.expected.has_value());
    if (major) {
      EXPECT_EQ(*major, *c.expected);
    } else {
      EXPECT_EQ(major.error().code, c.expected.error().code);
    }
  }
}

TEST(ParseCapability, reads_the_kernels_lines) {
  const auto capability = ParseCapability("DeviceFileMinor: 512\nDeviceFileMode: 256\nDeviceFileModify: 1\n");
  ASSERT_TRUE(capability);
  EXPECT_EQ(*capability, (Capability{512, 0400, true}));
}

TEST(ParseCapability, needs_a_minor_within_bounds) {
  for (const char* text : {"", "DeviceFileMode: 256\n", "DeviceFileMinor: 1048576\n", "DeviceFileMinor: -1\n",
                           "DeviceFileMinor:\n", "DeviceFileMinor: 1\nDeviceFileMode: 99999\n"}) {
    SCOPED_TRACE(text);
    const auto capability = ParseCapability(text);
    ASSERT_FALSE(capability);
    EXPECT_EQ(capability.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_TRUE(ParseCapability("DeviceFileMinor: 1048575\nUnknown: x\n"));
}

class NodeFiles : public ::testing::Test {
 protected:
  const TempDir temp_;
  const std::filesystem::path dir_ = temp_.path();
};

TEST_F(NodeFiles, imex_capability_joins_both_files) {
  ASSERT_TRUE(ReplaceFile(dir_ / "devices", kDevices));
  ASSERT_TRUE(ReplaceFile(dir_ / kImexCapability, "DeviceFileMinor: 2\nDeviceFileMode: 256\nDeviceFileModify: 1\n"));
  const auto capability = ReadImexCapability(dir_ / "devices", dir_);
  ASSERT_TRUE(capability) << capability.error().message;
  EXPECT_EQ(capability->number, (DeviceNumber{235, 2}));
  EXPECT_EQ(capability->DevicePath(), "/dev/nvidia-caps/nvidia-cap2");
}

TEST_F(NodeFiles, missing_channels_name_the_remedy) {
  ASSERT_TRUE(ReplaceFile(dir_ / "devices", "Character devices:\n  1 mem\n"));
  const auto major = ReadChannelMajor(dir_ / "devices");
  ASSERT_FALSE(major);
  EXPECT_EQ(major.error().code, ErrorCode::kNotFound);
  EXPECT_NE(major.error().message.find("NVreg_ImexChannelCount"), std::string::npos);
}

TEST(ChannelCountTest, is_what_the_kernel_driver_shows) {
  EXPECT_EQ(FindChannelCount("RmMsg: \"\"\nImexChannelCount: 2048\nCreateImexChannel0: 0\n").value_or(-1), 2048);
}

TEST(ChannelCountTest, is_never_guessed) {
  for (const char* text : {"", "CreateImexChannel0: 1\n", "NoImexChannelCount: 3\n"}) {
    EXPECT_EQ(FindChannelCount(text).error().code, ErrorCode::kNotFound) << text;
  }
  for (const char* value : {"0", "-1", "many", "16385", ""}) {
    const auto count = FindChannelCount(std::string("ImexChannelCount: ") + value);
    ASSERT_FALSE(count) << value;
    EXPECT_EQ(count.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(count.error().message.find("NVreg_ImexChannelCount"), std::string::npos);
  }
}

}  // namespace
}  // namespace cd::fabric
