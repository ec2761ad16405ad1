// What NVML advises to do about a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/node/node_state.h"

namespace emu {

// The action named in node.json, or else what the node's kernel model asks for (see kernel/advice.h).
uint32_t RecoveryAction(const Gpu& gpu, const std::string& node_directory);

}  // namespace emu
