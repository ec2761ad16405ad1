#include "src/base/file_lock.h"

#include <gtest/gtest.h>

#include "src/base/temp_dir.h"

namespace cd {
namespace {

class TryLockFileTest : public ::testing::Test {
 protected:
  const TempDir temp_;
  const std::filesystem::path path_ = temp_.path() / "lock";
};

TEST_F(TryLockFileTest, one_holds_it_until_its_descriptor_is_closed) {
  auto first = TryLockFile(path_);
  ASSERT_TRUE(first);
  EXPECT_TRUE(*first);
  const auto second = TryLockFile(path_);
  ASSERT_TRUE(second);
  EXPECT_FALSE(*second);
  first->Reset();
  EXPECT_TRUE(TryLockFile(path_).value());
}

TEST_F(TryLockFileTest, symlink_is_not_followed) {
  std::filesystem::create_symlink(temp_.path() / "elsewhere", path_);
  EXPECT_FALSE(TryLockFile(path_).has_value());
  EXPECT_FALSE(std::filesystem::exists(temp_.path() / "elsewhere"));
}

}  // namespace
}  // namespace cd
