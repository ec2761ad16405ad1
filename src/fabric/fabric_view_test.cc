#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/fabric/fabric_probe.h"

namespace cd::fabric {
namespace {

using api::FabricState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kClique[] = "6a130f54-0102-0304-0506-0708090a0b0c.32766";

GpuFabric Healthy(std::uint32_t clique = 32766) {
  GpuFabric gpu;
  gpu.uuid = "GPU-1";
  gpu.state = kGpuFabricCompleted;
  gpu.cluster_uuid = {0x6a, 0x13, 0x0f, 0x54, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  gpu.clique_id = clique;
  gpu.health_mask = 0xaa;
  gpu.health_summary = 1;
  return gpu;
}

GpuFabric With(void (*change)(GpuFabric&)) {
  GpuFabric gpu = Healthy();
  change(gpu);
  return gpu;
}

GpuFabric Forming(int state = kGpuFabricInProgress) {
  GpuFabric gpu;
  gpu.uuid = "GPU-2";
  gpu.state = state;
  return gpu;
}

GpuFabric Unattached() {
  return With([](GpuFabric& gpu) { gpu.cluster_uuid = {}; });
}

GpuFabric Failed() {
  return With([](GpuFabric& gpu) {
    gpu.status = 3;
    gpu.cluster_uuid = {};
  });
}

GpuFabric Unhealthy() {
  return With([](GpuFabric& gpu) { gpu.health_summary = kHealthSummaryUnhealthy; });
}

TEST(Classify, one_healthy_clique_is_ready) {
  const FabricView view = Classify({"580.105.08", {Healthy(), Healthy()}, ""});
  EXPECT_EQ(view.state, FabricState::kReady);
  EXPECT_THAT(view.clique_ids, ElementsAre(kClique));
  EXPECT_EQ(view.message, "");
  EXPECT_EQ(view.driver_version, "580.105.08");
}

struct ViewCase {
  const char* name;
  std::vector<GpuFabric> gpus;
  FabricState state;
  std::size_t cliques;
  const char* message;
};

TEST(Classify, says_what_is_wrong) {
  const GpuFabric other_cluster = With([](GpuFabric& gpu) { gpu.cluster_uuid[0] = 0xff; });
  const GpuFabric lost = With([](GpuFabric& gpu) { gpu.query_error = 15; });
  const GpuFabric limited = With([](GpuFabric& gpu) { gpu.health_summary = 3; });
  const GpuFabric silent = With([](GpuFabric& gpu) { gpu.health_summary = 0; });
  const ViewCase cases[] = {
      {"no_gpu", {}, FabricState::kNone, 0, "no GPU"},
      {"fabric_not_supported", {Forming(kGpuFabricNotSupported)}, FabricState::kNone, 0, "multi-node"},
      {"zero_cluster_is_no_fabric", {Unattached(), Unattached()}, FabricState::kNone, 0, "multi-node"},
      {"not_started", {Forming(kGpuFabricNotStarted)}, FabricState::kForming, 0, "has not started"},
      {"in_progress", {Healthy(), Forming()}, FabricState::kForming, 1, "1 of 2 GPUs"},
      {"unknown_state_is_not_usable", {Forming(9)}, FabricState::kForming, 0, "unknown fabric state 9"},
      {"failed_registration_is_not_no_fabric", {Failed()}, FabricState::kDegraded, 0, "NVML status 3"},
      {"unhealthy_summary", {Healthy(), Unhealthy()}, FabricState::kDegraded, 1, "health mask 0xaa"},
      {"one_lost_gpu", {Healthy(), lost}, FabricState::kDegraded, 1, "does not answer"},
      {"forming_before_degraded", {Failed(), Forming()}, FabricState::kForming, 0, "GPU-2"},
      {"two_cliques_of_one_cluster", {Healthy(1), Healthy(2)}, FabricState::kMixed, 2, ".1, "},
      {"same_clique_id_of_two_clusters", {Healthy(), other_cluster}, FabricState::kMixed, 2, "one partition"},
      {"mixed_before_everything", {Healthy(1), Healthy(2), Forming(), Failed()}, FabricState::kMixed, 2, "different"},
      {"unattached_gpus_are_left_out", {Healthy(), Unattached()}, FabricState::kReady, 1, ""},
      {"limited_capacity_is_usable", {limited}, FabricState::kReady, 1, ""},
      {"driver_without_health_summary", {silent}, FabricState::kReady, 1, ""},
  };
  for (const ViewCase& c : cases) {
    SCOPED_TRACE(c.name);
    const FabricView view = Classify({"580", c.gpus, ""});
    EXPECT_EQ(view.state, c.state);
    EXPECT_EQ(view.clique_ids.size(), c.cliques);
    EXPECT_THAT(view.message, HasSubstr(c.message));
    EXPECT_EQ(view.message.empty(), c.state == FabricState::kReady);
  }
}

TEST(Classify, no_reading_is_no_fabric_with_the_reason) {
  const FabricView view = Classify({"", {}, "no NVIDIA driver"});
  EXPECT_EQ(view.state, FabricState::kNone);
  EXPECT_EQ(view.message, "no NVIDIA driver");
}

}  // namespace
}  // namespace cd::fabric
