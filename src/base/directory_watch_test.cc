#include "src/base/directory_watch.h"

#include <gtest/gtest.h>

#include "src/base/files.h"
#include "src/base/loop_for_test.h"
#include "src/base/temp_dir.h"

namespace cd {
namespace {

class DirectoryWatchTest : public ::testing::Test {
 protected:
  void Put(const std::string& name) { ASSERT_TRUE(ReplaceFile(directory_ / name, "x")); }

  const TempDir temp_;
  const std::filesystem::path directory_ = temp_.path() / "watched";
  LoopForTest loop_;
  int changes_ = 0;
};

TEST_F(DirectoryWatchTest, only_the_named_files_count) {
  std::filesystem::create_directory(directory_);
  const DirectoryWatch watch(loop_.loop(), directory_, {"a", "b"}, [this] { ++changes_; });
  Put("other");
  Put("a");
  ASSERT_TRUE(loop_.RunUntil([this] { return changes_ == 1; }));
  ASSERT_TRUE(RemoveFile(directory_ / "a"));
  ASSERT_TRUE(loop_.RunUntil([this] { return changes_ == 2; }));
}

TEST_F(DirectoryWatchTest, directory_that_comes_late_is_watched_from_then_on_and_looked_at_once) {
  const DirectoryWatch watch(loop_.loop(), directory_, {"a"}, [this] { ++changes_; });
  std::filesystem::create_directory(directory_);
  ASSERT_TRUE(loop_.RunUntil([this] { return changes_ == 1; }));
  Put("a");
  ASSERT_TRUE(loop_.RunUntil([this] { return changes_ == 2; }));
}

TEST_F(DirectoryWatchTest, directory_that_was_replaced_is_watched_again) {
  std::filesystem::create_directory(directory_);
  const DirectoryWatch watch(loop_.loop(), directory_, {"a"}, [this] { ++changes_; });
  std::filesystem::remove(directory_);
  std::filesystem::create_directory(directory_);
  ASSERT_TRUE(loop_.RunUntil([this] { return changes_ == 1; }));
  Put("a");
  ASSERT_TRUE(loop_.RunUntil([this] { return changes_ == 2; }));
}

TEST_F(DirectoryWatchTest, directory_that_was_moved_away_is_watched_at_its_place) {
  std::filesystem::create_directory(directory_);
  const DirectoryWatch watch(loop_.loop(), directory_, {"a"}, [this] { ++changes_; });
  std::filesystem::rename(directory_, temp_.path() / "aside");
  std::filesystem::create_directory(directory_);
  ASSERT_TRUE(loop_.RunUntil([this] { return changes_ == 1; }));
  Put("a");
  ASSERT_TRUE(loop_.RunUntil([this] { return changes_ == 2; }));
}

TEST_F(DirectoryWatchTest, nothing_runs_after_its_end) {
  {
    const DirectoryWatch late(loop_.loop(), directory_, {"a"}, [this] { ++changes_; });
  }
  std::filesystem::create_directory(directory_);
  // The second watch is tried after the first one's retry would have been.
  bool seen = false;
  const DirectoryWatch watch(loop_.loop(), temp_.path() / "later", {}, [&] { seen = true; });
  std::filesystem::create_directory(temp_.path() / "later");
  ASSERT_TRUE(loop_.RunUntil([&] { return seen; }));
  EXPECT_EQ(changes_, 0);
}

}  // namespace
}  // namespace cd
