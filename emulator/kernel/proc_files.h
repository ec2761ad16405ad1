// The files of /proc by which software finds the channel devices and the capability of nvidia-imex.
#pragma once

#include <string>

#include "emulator/base/result.h"

namespace emu::kernel {

// Minor of the device that stands for the fabric-imex-mgmt capability.
inline constexpr unsigned kCapabilityMinor = 3;

// `host` (the text of a /proc/devices) with the driver's majors at the end of the character section. `channels` false:
// the node has no channel devices.
std::string DevicesFile(const std::string& host, unsigned major, unsigned caps_major, bool channels);

// Writes proc/devices, proc/driver/nvidia/params and proc/driver/nvidia/capabilities/fabric-imex-mgmt under the node's directory.
// `channels`: how many there are.
Result<void> WriteProcFiles(const std::string& directory, unsigned major, unsigned caps_major, int channels);

}  // namespace emu::kernel
