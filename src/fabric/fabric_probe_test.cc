// The probe against a real shared library: the emulator's NVML, answering from a node.json.
#include "src/fabric/fabric_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "src/base/files.h"
#include "src/base/temp_dir.h"

namespace cd::fabric {
namespace {

namespace fs = std::filesystem;
using api::FabricState;
using ::testing::HasSubstr;

class DriverRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(dir_ / "root/usr/lib64");
    ::setenv("MNNVL_DIR", dir_.c_str(), 1);
  }

  fs::path Root() const { return dir_ / "root"; }
  void InstallDriver() {
    fs::copy_file(NVML_LIBRARY, Root() / "usr/lib64/libnvidia-ml.so.1", fs::copy_options::overwrite_existing);
  }
  void RemoveDriver() { fs::remove(Root() / "usr/lib64/libnvidia-ml.so.1"); }
  void WriteNode(const std::string& state, int clique = 7) {
    const std::string gpu =
        R"({"uuid":"GPU-11111111-2222-4333-8444-555555555555","clusterUuid":"6A130F54-1111-4222-8333-444444444444","cliqueId":)" +
        std::to_string(clique) + R"(,"state":")" + state +
        R"(","status":"success","healthMask":170,"healthSummary":1,"recoveryAction":0})";
    ASSERT_TRUE(ReplaceFile(dir_ / "node.json",
                            R"({"node":"node-1","driverVersion":"580.105.08","channelCount":2048,"gpus":[)" + gpu + "]}", 0644));
  }

  const TempDir temp_;
  const fs::path dir_ = temp_.path();
};

TEST_F(DriverRoot, reads_version_and_clique) {
  InstallDriver();
  WriteNode("completed");
  const FabricView view = FabricProbe(Root()).Read();
  EXPECT_EQ(view.state, FabricState::kReady) << view.message;
  EXPECT_EQ(view.driver_version, "580.105.08");
  EXPECT_EQ(view.clique_ids, std::vector<std::string>{"6a130f54-1111-4222-8333-444444444444.7"});
}

TEST_F(DriverRoot, every_reading_is_fresh) {
  InstallDriver();
  WriteNode("in_progress");
  FabricProbe probe(Root());
  EXPECT_EQ(probe.Read().state, FabricState::kForming);
  WriteNode("completed", 8);
  EXPECT_EQ(probe.Read().clique_ids, std::vector<std::string>{"6a130f54-1111-4222-8333-444444444444.8"});
}

TEST_F(DriverRoot, a_driver_may_come_and_go) {
  FabricProbe probe(Root());
  EXPECT_THAT(probe.Read().message, HasSubstr("no NVIDIA driver"));
  InstallDriver();
  WriteNode("completed");
  EXPECT_EQ(probe.Read().state, FabricState::kReady);
  fs::remove(dir_ / "node.json");
  EXPECT_THAT(probe.Read().message, HasSubstr("does not answer"));
  WriteNode("completed");
  EXPECT_EQ(probe.Read().state, FabricState::kReady);
  RemoveDriver();
  EXPECT_EQ(probe.Read().state, FabricState::kNone);
  InstallDriver();
  EXPECT_EQ(probe.Read().state, FabricState::kReady);
}

TEST_F(DriverRoot, a_file_that_is_no_library_is_reported) {
  ASSERT_TRUE(ReplaceFile(Root() / "usr/lib64/libnvidia-ml.so.1", "text"));
  EXPECT_THAT(FabricProbe(Root()).Read().message, HasSubstr("cannot load NVML"));
}

TEST_F(DriverRoot, a_directory_of_the_librarys_name_is_passed_over) {
  fs::create_directories(Root() / "usr/lib64/libnvidia-ml.so.1");
  EXPECT_EQ(FindNvml(Root()), std::nullopt);
  fs::create_directories(Root() / "lib64");
  fs::copy_file(NVML_LIBRARY, Root() / "lib64/libnvidia-ml.so.1");
  EXPECT_EQ(FindNvml(Root()), Root() / "lib64/libnvidia-ml.so.1");
}

TEST_F(DriverRoot, symlinks_stay_inside_the_root) {
  fs::copy_file(NVML_LIBRARY, Root() / "usr/lib64/libnvidia-ml.so.580.105.08");
  fs::create_symlink("/usr/lib64/libnvidia-ml.so.580.105.08", Root() / "usr/lib64/libnvidia-ml.so.1");
  EXPECT_EQ(FindNvml(Root()), Root() / "usr/lib64/libnvidia-ml.so.580.105.08");
  fs::remove(Root() / "usr/lib64/libnvidia-ml.so.1");
  fs::create_symlink("libnvidia-ml.so.1", Root() / "usr/lib64/libnvidia-ml.so.1");
  EXPECT_EQ(FindNvml(Root()), std::nullopt);
}

}  // namespace
}  // namespace cd::fabric
