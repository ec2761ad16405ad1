// The two files of a prepared claim: its CDI spec, and the marker its containers see.
//
// The marker (<plugin dir>/claims/<uid>.json, mounted read-only at /run/compute-domain/<uid>.json) tells a workload what it got,
// tells the process scan who was granted the claim, and is the second record from which a lost checkpoint is rebuilt. So it
// outlives the CDI spec: it goes when the last process has ended.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/base/disk.h"
#include "src/fabric/device_numbers.h"
#include "src/plugin/checkpoint.h"

namespace cd::plugin {

// vendor/class of our CDI devices; a device's name is the claim's UID alone, because the kubelet keeps the IDs of an earlier
// answer.
inline constexpr char kCdiKind[] = "compute-domain.nvidia.com/claim";
inline constexpr char kMarkerDirectory[] = "/run/compute-domain";  // in the container

std::string CdiDeviceId(const std::string& claim_uid);

// What a channel's containers get: `entry.grant`'s channel, or with all_channels those from 0 to channel_count - 1. Pure.
struct ChannelDevices {
  std::uint32_t major = 0;
  int count = 0;  // only for all_channels
};
nlohmann::json ChannelCdiSpec(const ClaimEntry& entry, const ChannelDevices& devices, const std::filesystem::path& marker);

// The same on a node without fabric: the environment says so, and there is no device.
nlohmann::json NoChannelCdiSpec(const ClaimEntry& entry, const std::filesystem::path& marker);

// Host paths of what the daemon's container gets.
struct DaemonMounts {
  std::filesystem::path desired_dir;
  std::filesystem::path status_dir;
  std::filesystem::path imex;      // nvidia-imex
  std::filesystem::path imex_ctl;  // nvidia-imex-ctl
};
nlohmann::json DaemonCdiSpec(const ClaimEntry& entry, const DaemonMounts& mounts, const fabric::ImexCapability& capability);

class ClaimFiles {
 public:
  struct Paths {
    std::filesystem::path cdi_dir;
    std::filesystem::path plugin_dir;  // claims/, daemon/
    std::filesystem::path proc_devices;
    std::filesystem::path capabilities_dir;
    std::filesystem::path driver_root;        // as the host sees it: goes into the CDI spec
    std::filesystem::path driver_root_mount;  // as this process sees it
    std::filesystem::path driver_parameters;  // the kernel driver's, "name: value" lines
  };
  explicit ClaimFiles(Paths paths, Disk& disk = SystemDisk()) : paths_(std::move(paths)), disk_(disk) {}

  // Creates the directories this process owns.
  Status MakeDirectories() const;

  // Writes marker and CDI spec for a claim; the same again is fine. Device numbers are read anew each time: a driver reload
  // changes them. Errors are kFailedPrecondition and say what the node lacks.
  Status Write(const ClaimEntry& entry) const;
  // No container can be started with the claim from here on. A missing file is success.
  Status RemoveCdiSpec(const std::string& claim_uid) const;
  // False after an Unprepare.
  bool HasCdiSpec(const std::string& claim_uid) const;
  // After the claim's last process.
  Status RemoveMarker(const std::string& claim_uid) const;

  // What the markers and CDI specs say: a claim with both is prepared, one with a marker alone lingers (the daemon's holds
  // nothing that could). For a checkpoint that is missing or damaged. Unreadable markers are reported by name.
  Checkpoint Rebuild(std::vector<std::string>& unreadable) const;
  // Removes specs and markers of claims that `checkpoint` does not know (left by a crash, or by the boot before).
  void RemoveStrays(const Checkpoint& checkpoint) const;

 private:
  std::filesystem::path CdiPath(const std::string& claim_uid) const;
  std::filesystem::path MarkerPath(const std::string& claim_uid) const;
  Result<std::filesystem::path> FindProgram(const char* program) const;
  Result<std::string> DaemonSpec(const ClaimEntry& entry) const;

  Status ReplaceIfChanged(const std::filesystem::path& path, const std::string& content) const;
  Result<ClaimEntry> ReadMarker(const std::filesystem::path& path) const;
  std::vector<std::string> UidsIn(const std::filesystem::path& directory, std::string_view prefix) const;

  Paths paths_;
  Disk& disk_;
};

}  // namespace cd::plugin
