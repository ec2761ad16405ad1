// The judgement of fabric_probe.h, without NVML.
#include <algorithm>
#include <cstdio>
#include <set>

#include "src/fabric/fabric_probe.h"

namespace cd::fabric {
namespace {

enum class GpuVerdict { kNoFabric, kForming, kSick, kHealthy };

bool HasCluster(const GpuFabric& gpu) {
  return std::any_of(gpu.cluster_uuid.begin(), gpu.cluster_uuid.end(), [](std::uint8_t byte) { return byte != 0; });
}

// A GPU of a single-node NVSwitch machine completes with an all-zero cluster: no multi-node fabric, and healthy. A failed
// registration leaves the cluster zero as well, so its status is looked at first.
GpuVerdict Judge(const GpuFabric& gpu) {
  if (gpu.query_error != 0) return GpuVerdict::kSick;
  switch (gpu.state) {
    case kGpuFabricNotSupported:
      return GpuVerdict::kNoFabric;
    case kGpuFabricCompleted:
      if (gpu.status != 0) return GpuVerdict::kSick;
      if (!HasCluster(gpu)) return GpuVerdict::kNoFabric;
      return gpu.health_summary == kHealthSummaryUnhealthy ? GpuVerdict::kSick : GpuVerdict::kHealthy;
    default:  // not started, in progress, or a state this build does not know: not usable yet
      return GpuVerdict::kForming;
  }
}

std::string CliqueId(const GpuFabric& gpu) {
  std::string id;
  for (std::size_t i = 0; i < gpu.cluster_uuid.size(); ++i) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", gpu.cluster_uuid[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) id += '-';
    id += byte;
  }
  return id + "." + std::to_string(gpu.clique_id);
}

std::string DescribeSick(const GpuFabric& gpu) {
  if (gpu.query_error != 0) return "it does not answer (NVML error " + std::to_string(gpu.query_error) + ")";
  if (gpu.status != 0) return "its registration with the fabric ended with NVML status " + std::to_string(gpu.status);
  char mask[16];
  std::snprintf(mask, sizeof mask, "0x%x", gpu.health_mask);
  return std::string("its fabric health is Unhealthy (health mask ") + mask + ")";
}

std::string DescribeForming(const GpuFabric& gpu) {
  if (gpu.state == kGpuFabricNotStarted) return "has not started registering with the fabric manager";
  if (gpu.state == kGpuFabricInProgress) return "is still registering with the fabric manager";
  return "is in the unknown fabric state " + std::to_string(gpu.state);
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

struct Census {
  const GpuFabric* first_forming = nullptr;
  const GpuFabric* first_sick = nullptr;
  std::size_t forming = 0;
  std::size_t sick = 0;
  std::set<std::string> cliques;
};

Census Count(const std::vector<GpuFabric>& gpus) {
  Census census;
  for (const GpuFabric& gpu : gpus) {
    const GpuVerdict verdict = Judge(gpu);
    if (verdict == GpuVerdict::kForming && census.forming++ == 0) census.first_forming = &gpu;
    if (verdict == GpuVerdict::kSick && census.sick++ == 0) census.first_sick = &gpu;
    const bool registered = gpu.query_error == 0 && gpu.state == kGpuFabricCompleted && gpu.status == 0 && HasCluster(gpu);
    if (registered) census.cliques.insert(CliqueId(gpu));
  }
  return census;
}

std::string Share(std::size_t part, std::size_t whole) {
  return std::to_string(part) + " of " + std::to_string(whole) + " GPUs";
}

}  // namespace

FabricView Classify(const FabricReading& reading) {
  FabricView view;
  view.driver_version = reading.driver_version;
  if (!reading.error.empty()) {
    view.message = reading.error;
    return view;
  }
  const Census census = Count(reading.gpus);
  view.clique_ids.assign(census.cliques.begin(), census.cliques.end());
  if (census.cliques.size() > 1) {
    view.state = api::FabricState::kMixed;
    view.message = "the node's GPUs are in different NVLink cliques (" + Join(view.clique_ids) +
                   "), which is not supported: put them into one partition";
  } else if (census.forming > 0) {
    view.state = api::FabricState::kForming;
    view.message = Share(census.forming, reading.gpus.size()) +
                   " not registered with the fabric yet: " + census.first_forming->uuid + " " +
                   DescribeForming(*census.first_forming);
  } else if (census.sick > 0) {
    view.state = api::FabricState::kDegraded;
    view.message = Share(census.sick, reading.gpus.size()) + " degraded: " + census.first_sick->uuid + ": " +
                   DescribeSick(*census.first_sick);
  } else if (census.cliques.size() == 1) {
    view.state = api::FabricState::kReady;
  } else {
    view.message = reading.gpus.empty() ? "the NVIDIA driver reports no GPU" : "no GPU is attached to a multi-node NVLink fabric";
  }
  return view;
}

std::string FabricView::OfferedClique() const {
  const bool usable = state == api::FabricState::kReady || state == api::FabricState::kDegraded;
  return usable && clique_ids.size() == 1 ? clique_ids.front() : "";
}

}  // namespace cd::fabric
