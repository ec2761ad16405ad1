#include "src/fabric/daemon_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "src/base/files.h"
#include "src/base/temp_dir.h"

namespace cd::fabric {
namespace {

Desired Example() {
  Desired desired;
  desired.run = true;
  desired.domain = DesiredDomain{"6a130f54-1111-4222-8333-444444444444.32766", "0b7c1a52-0000-4000-8000-000000000002", 3, 24};
  desired.hosts = {{0, "10.0.0.1"}, {3, "10.0.0.4"}};
  return desired;
}

class DaemonDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(dir_ / "desired");
    std::filesystem::create_directories(dir_ / "status");
  }
  const TempDir temp_;
  const std::filesystem::path dir_ = temp_.path();
};

TEST_F(DaemonDirectory, files_are_written_and_read) {
  EXPECT_EQ(ReadDesired(dir_).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(WriteDesired(dir_, Example()));
  EXPECT_EQ(ReadDesired(dir_), Example());
  ASSERT_TRUE(WriteDaemonStatus(dir_, DaemonStatus{}));
  EXPECT_EQ(ReadDaemonStatus(dir_), DaemonStatus{});
}

TEST_F(DaemonDirectory, an_invalid_wish_is_not_written) {
  Desired desired = Example();
  desired.hosts[0].address = "not an address";
  EXPECT_FALSE(WriteDesired(dir_, desired));
  EXPECT_FALSE(std::filesystem::exists(DesiredPath(dir_)));
}

TEST_F(DaemonDirectory, a_symlink_instead_of_the_status_is_refused) {
  ASSERT_TRUE(ReplaceFile(dir_ / "elsewhere", EncodeDaemonStatus({})));
  std::filesystem::create_symlink(dir_ / "elsewhere", StatusPath(dir_));
  EXPECT_FALSE(ReadDaemonStatus(dir_));
}

TEST_F(DaemonDirectory, the_lock_tells_a_living_daemon) {
  EXPECT_FALSE(DaemonAlive(dir_));
  {
    const auto lock = LockDaemon(dir_);
    ASSERT_TRUE(lock) << lock.error().message;
    EXPECT_TRUE(DaemonAlive(dir_));
    EXPECT_EQ(LockDaemon(dir_).error().code, ErrorCode::kFailedPrecondition);
  }
  EXPECT_FALSE(DaemonAlive(dir_));
}

TEST_F(DaemonDirectory, a_fifo_instead_of_the_lock_does_not_hang_the_plugin) {
  ASSERT_EQ(::mkfifo((dir_ / "status/daemon.lock").c_str(), 0600), 0);
  EXPECT_FALSE(DaemonAlive(dir_));
}

}  // namespace
}  // namespace cd::fabric
