// The emulated hardware of one node, as the lab wrote it to <node directory>/node.json.
//
// Nothing here is cached: every query reads the file again, so that a test can change a GPU's clique, degrade it or
// let its fabric come up under a running program, as hardware does.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/base/result.h"

namespace emu {

// Values of nvmlGpuFabricState_t.
enum class FabricState : uint8_t { kNotSupported = 0, kNotStarted = 1, kInProgress = 2, kCompleted = 3 };

struct Gpu {
  std::string uuid;                        // "GPU-…"
  std::array<uint8_t, 16> cluster_uuid{};  // of the NVLink domain; zero: none
  uint32_t clique_id = 0;                  // NVLink partition inside the domain
  FabricState state = FabricState::kCompleted;
  uint32_t status = 0;  // nvmlReturn_t of the registration; meaningful when kCompleted
  uint32_t health_mask = 0;
  uint8_t health_summary = 0;
  uint32_t recovery_action = 0;        // nvmlDeviceGpuRecoveryAction_t
  bool fabric_query_supported = true;  // false: the query itself answers NVML_ERROR_NOT_SUPPORTED
  std::string chassis_serial;
  uint8_t slot_number = 0;
  uint8_t tray_index = 0;
  uint8_t host_id = 0;
  uint8_t module_id = 0;

  // Can memory be exported from or mapped on this GPU over the fabric?
  bool FabricReady() const {
    return state == FabricState::kCompleted && status == 0 && cluster_uuid != std::array<uint8_t, 16>{};
  }
};

struct NodeState {
  std::string node;
  std::string driver_version;
  std::string imex_version;  // of the installed nvidia-imex; equal to the driver's unless a version skew is emulated
  int channel_count = 2048;  // NVreg_ImexChannelCount; 0: feature off
  std::vector<Gpu> gpus;
};

// $MNNVL_DIR, or the place where the lab mounts the directory.
std::string NodeDirectory();

Result<NodeState> ParseNodeState(const std::string& text);
Result<NodeState> ReadNodeState(const std::string& directory);

}  // namespace emu
