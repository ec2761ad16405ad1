// Device numbers of the kernel driver's character devices. Majors are given out by the kernel at load time: they differ between
// nodes and between boots of one node.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace cd::fabric {

inline constexpr char kChannelDevices[] = "nvidia-caps-imex-channels";
inline constexpr char kCapabilityDevices[] = "nvidia-caps";
inline constexpr char kImexCapability[] = "fabric-imex-mgmt";
// Width of Linux's dev_t as user space and the device cgroup see it.
inline constexpr std::uint32_t kMaxMajor = (1u << 12) - 1;
inline constexpr std::uint32_t kMaxMinor = (1u << 20) - 1;

struct DeviceNumber {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  bool operator==(const DeviceNumber&) const = default;
};

// The kernel driver's description of one capability device.
struct Capability {
  std::uint32_t minor = 0;
  mode_t mode = 0400;
  bool modify = false;  // the driver's own tools may create the node and change its permissions
  bool operator==(const Capability&) const = default;
};

// Pure: major of `name` in the character section of a /proc/devices text. Sections may come in any order, spacing is free and
// lines that make no sense are passed over. kNotFound: no such device; kInvalidArgument: its number cannot be a major.
Result<std::uint32_t> FindCharacterMajor(std::string_view proc_devices, std::string_view name);
// Pure: "DeviceFileMinor: 2" and so on, one a line. The minor is required.
Result<Capability> ParseCapability(std::string_view text);

// Major of the IMEX channels. kNotFound, with the remedy, where the driver is not loaded or has no channels.
Result<std::uint32_t> ReadChannelMajor(const std::filesystem::path& proc_devices);

// More device files than that are not put into one container.
inline constexpr int kMostChannels = 16384;

// Number of IMEX channels the kernel driver has, 0 … N-1: "ImexChannelCount: N" of its parameters as it shows them, one a line.
// kNotFound where it does not say; kInvalidArgument: no number from 1 to kMostChannels.
Result<int> FindChannelCount(std::string_view parameters);
Result<int> ReadChannelCount(const std::filesystem::path& driver_parameters);

struct ImexCapability {
  DeviceNumber number;
  Capability capability;
  std::string DevicePath() const;  // /dev/nvidia-caps/nvidia-cap<minor>
};
// The device nvidia-imex needs to open a session in the kernel.
Result<ImexCapability> ReadImexCapability(const std::filesystem::path& proc_devices,
                                          const std::filesystem::path& capabilities_dir);

// /dev/nvidia-caps-imex-channels/channel<N>
std::string ChannelDevicePath(int channel);

}  // namespace cd::fabric
