#include "emulator/nvml/recovery.h"

#include <cstdlib>

#include "emulator/base/files.h"

namespace emu {

uint32_t RecoveryAction(const Gpu& gpu, const std::string& node_directory) {
  if (gpu.recovery_action != 0) return gpu.recovery_action;
  const auto advice = ReadFile(node_directory + "/recovery_action");
  return advice ? static_cast<uint32_t>(std::strtoul(advice->c_str(), nullptr, 10)) : 0;
}

}  // namespace emu
