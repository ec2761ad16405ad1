// What the NVLink fabric looks like from this node: NVML's per-GPU registration, judged.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/api/imex_node.h"

namespace cd::fabric {

// NVML's numbers, kept as such: a driver may report one this build does not know.
inline constexpr int kGpuFabricNotSupported = 0;
inline constexpr int kGpuFabricNotStarted = 1;
inline constexpr int kGpuFabricInProgress = 2;
inline constexpr int kGpuFabricCompleted = 3;
inline constexpr int kHealthSummaryUnhealthy = 2;

// One GPU as NVML reports it.
struct GpuFabric {
  std::string uuid;  // "GPU-…"
  int state = kGpuFabricNotSupported;
  int status = 0;                               // nvmlReturn_t of the registration; 0 is success. Meaningful once completed
  std::array<std::uint8_t, 16> cluster_uuid{};  // valid once completed with success; all zero: no multi-node fabric
  std::uint32_t clique_id = 0;
  std::uint32_t health_mask = 0;
  int health_summary = 0;  // 0: the driver does not say
  int query_error = 0;     // nvmlReturn_t of the query itself, when this one GPU does not answer; the fields above are then void
  bool operator==(const GpuFabric&) const = default;
};

struct FabricReading {
  std::string driver_version;  // empty: no driver answered
  std::vector<GpuFabric> gpus;
  std::string error;  // why there is no reading; empty when there is one
};

struct FabricView {
  api::FabricState state = api::FabricState::kNone;
  // `<clusterUUID, lower case>.<cliqueID>` of the GPUs that report one; sorted, no duplicates. One element when kReady; also
  // filled when kForming, kDegraded or kMixed as far as known, so that a hiccup of one GPU does not look like a move.
  std::vector<std::string> clique_ids;
  std::string message;  // why the node offers nothing; empty when kReady
  std::string driver_version;
  // The driver answers and knows of no fabric; see api::NoFabric.
  bool NoFabric() const { return state == api::FabricState::kNone && !driver_version.empty(); }
  bool operator==(const FabricView&) const = default;

  // New pods come to healthy nodes only, or to those that surely have no fabric: a pod on a sick or half-formed node could
  // neither get its channel nor be told that there is none.
  bool OffersChannel() const { return state == api::FabricState::kReady || NoFabric(); }
  // The clique whose channels may be offered; empty: none. A sick fabric is still the node's fabric; one that is forming offers
  // nothing yet.
  std::string OfferedClique() const;
};

// Pure. Two cliques in one node decide first (kMixed); then a GPU still registering (kForming); then one that registered but is
// sick (kDegraded, never "no fabric"). GPUs without a multi-node fabric are left out; no other GPU: kNone.
FabricView Classify(const FabricReading& reading);

// Where libnvidia-ml.so.1 lies below a driver root: the first regular file (after symlinks, which are followed inside the root)
// among the usual library folders. A directory of that name is passed over.
std::optional<std::filesystem::path> FindNvml(const std::filesystem::path& driver_root);

// Reads the fabric through NVML, loaded at run time. The first Read loads and initialises it, later ones are a handful of calls
// (cheap enough for every few seconds). A library that appears, is replaced or stops answering is taken up by the next Read.
// Not thread-safe; Read may block for as long as the driver does, so keep it off a latency-critical thread.
class FabricProbe {
 public:
  // `driver_root` is where the driver's files are seen by this process ("/" or, in a container, a mount of the host's root).
  explicit FabricProbe(std::filesystem::path driver_root);
  ~FabricProbe();
  FabricProbe(FabricProbe&&) noexcept;
  FabricProbe& operator=(FabricProbe&&) noexcept;

  FabricView Read();
  FabricReading ReadGpus();

 private:
  class Library;
  std::filesystem::path driver_root_;
  std::unique_ptr<Library> library_;
};

}  // namespace cd::fabric
