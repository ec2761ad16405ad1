#include "src/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>

#include "src/base/temp_dir.h"

namespace cd {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  std::size_t Entries() const { return std::distance(fs::directory_iterator(directory_), fs::directory_iterator()); }

  const TempDir temp_;
  const fs::path directory_ = temp_.path();
};

ino_t Inode(const fs::path& path) {
  struct stat info{};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_ino;
}

TEST_F(Files, replaced_content_is_read_back_with_its_mode) {
  for (const auto replace : {&ReplaceFile, &ReplaceFileUntilReboot}) {
    ASSERT_TRUE(replace(directory_ / "a", "one", 0600));
    ASSERT_TRUE(replace(directory_ / "a", "two", 0644));
    EXPECT_EQ(ReadSmallFile(directory_ / "a"), "two");
    EXPECT_EQ(fs::status(directory_ / "a").permissions(), fs::perms(0644));
    EXPECT_EQ(Entries(), 1U);  // no temporary file stays
  }
}

TEST_F(Files, replace_of_a_directory_fails_and_leaves_nothing) {
  fs::create_directory(directory_ / "a");
  EXPECT_FALSE(ReplaceFile(directory_ / "a", "x"));
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(Files, missing_file_is_not_found) {
  EXPECT_EQ(ReadSmallFile(directory_ / "a").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ReplaceFile(directory_ / "no" / "a", "x").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(RemoveFile(directory_ / "a"));
}

TEST_F(Files, small_file_is_no_link_no_directory_no_fifo) {
  ASSERT_TRUE(ReplaceFile(directory_ / "a", "x"));
  fs::create_symlink("a", directory_ / "link");
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_FALSE(ReadSmallFile(directory_ / "link"));
  EXPECT_FALSE(ReadSmallFile(directory_ / "fifo"));
  EXPECT_FALSE(ReadSmallFile(directory_));
  EXPECT_EQ(ReadKernelFile(directory_ / "link"), "x");
}

TEST_F(Files, file_over_the_limit_is_an_error_not_a_cut) {
  ASSERT_TRUE(ReplaceFile(directory_ / "a", "12345"));
  EXPECT_EQ(ReadSmallFile(directory_ / "a", 5), "12345");
  EXPECT_FALSE(ReadSmallFile(directory_ / "a", 4));
}

TEST_F(Files, kernel_file_without_a_size_is_read_whole) {
  EXPECT_FALSE(ReadKernelFile("/proc/self/status")->empty());
}

TEST_F(Files, overwrite_keeps_the_inode_and_drops_the_longer_tail) {
  ASSERT_TRUE(ReplaceFile(directory_ / "a", "a long line"));
  const ino_t before = Inode(directory_ / "a");
  ASSERT_TRUE(OverwriteFile(directory_ / "a", "short"));
  EXPECT_EQ(Inode(directory_ / "a"), before);
  EXPECT_EQ(ReadSmallFile(directory_ / "a"), "short");
}

TEST_F(Files, directories_are_made_once_and_a_file_in_the_way_is_an_error) {
  EXPECT_TRUE(MakeDirectories(directory_ / "x/y/z"));
  EXPECT_TRUE(MakeDirectories(directory_ / "x/y/z"));
  ASSERT_TRUE(ReplaceFile(directory_ / "f", ""));
  EXPECT_FALSE(MakeDirectories(directory_ / "f"));
  EXPECT_FALSE(MakeDirectories(directory_ / "f/g"));
}

TEST(Names, path_components) {
  EXPECT_TRUE(IsSafePathComponent("node-1.example.com"));
  EXPECT_TRUE(IsSafePathComponent(std::string(253, 'a')));
  for (std::string_view bad : {"", ".", "..", "a/b", "../etc", "a b", "a\n"}) EXPECT_FALSE(IsSafePathComponent(bad)) << bad;
  EXPECT_FALSE(IsSafePathComponent(std::string_view("a\0b", 3)));
  EXPECT_FALSE(IsSafePathComponent(std::string(254, 'a')));
}

TEST(Names, uuids) {
  EXPECT_TRUE(IsUuid("0f8fad5b-d9cb-469f-a165-70867728950e"));
  EXPECT_FALSE(IsUuid("0F8FAD5B-D9CB-469F-A165-70867728950E"));
  EXPECT_FALSE(IsUuid("0f8fad5bd9cb-469f-a165-70867728950e-"));
  EXPECT_FALSE(IsUuid("0f8fad5b-d9cb-469f-a165-70867728950"));
  EXPECT_FALSE(IsUuid("../../5b-d9cb-469f-a165-70867728950e"));
}

}  // namespace
}  // namespace cd
