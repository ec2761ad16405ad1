#include "emulator/kernel/proc_files.h"

#include <cstdio>
#include <filesystem>

#include "emulator/base/files.h"

namespace emu::kernel {
namespace {

std::string DeviceLine(unsigned major, const char* name) {
  char line[64];
  std::snprintf(line, sizeof line, "%3u %s\n", major, name);
  return line;
}

}  // namespace

std::string DevicesFile(const std::string& host, unsigned major, unsigned caps_major, bool channels) {
  std::string lines = DeviceLine(caps_major, "nvidia-caps");
  if (channels) lines += DeviceLine(major, "nvidia-caps-imex-channels");
  std::string text = host;
  const size_t blocks = text.find("\nBlock devices:");
  if (blocks == std::string::npos) return text + lines;
  return text.insert(blocks, lines);
}

Result<void> WriteProcFiles(const std::string& directory, unsigned major, unsigned caps_major, int channels) {
  const std::string capabilities = directory + "/proc/driver/nvidia/capabilities";
  std::error_code error;
  std::filesystem::create_directories(capabilities, error);
  if (error) return Fail("cannot create " + capabilities + ": " + error.message());
  const auto host = ReadFile("/proc/devices");
  if (!host) return tl::unexpected(host.error());
  const auto written = WriteFileAtomically(directory + "/proc/devices", DevicesFile(*host, major, caps_major, channels > 0));
  if (!written) return written;
  const auto parameters =
      WriteFileAtomically(directory + "/proc/driver/nvidia/params",
                          "ModifyDeviceFiles: 1\nImexChannelCount: " + std::to_string(channels) + "\nCreateImexChannel0: 0\n");
  if (!parameters) return parameters;
  // Mode 256 is 0400: the owner may read, as the driver has it.
  return WriteFileAtomically(capabilities + "/fabric-imex-mgmt", "DeviceFileMinor: " + std::to_string(kCapabilityMinor) +
                                                                     "\nDeviceFileMode: 256\nDeviceFileModify: 0\n");
}

}  // namespace emu::kernel
