#include "src/plugin/claim_files.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/references.h"
#include "src/base/files.h"
#include "src/base/log.h"
#include "src/plugin/checkpoint_json.h"

namespace cd::plugin {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Of the driver's root. A package puts its programs in the first, a driver container or an immutable host in another.
constexpr const char* kProgramFolders[] = {"usr/bin", "usr/sbin", "bin", "sbin", "opt/bin"};

constexpr char kCdiVersion[] = "0.5.0";  // the lowest that has all we use
constexpr char kCdiFilePrefix[] = "compute-domain.nvidia.com-claim_";
constexpr char kJson[] = ".json";
constexpr int kMarkerVersion = 1;

json ReadOnlyMount(const fs::path& host, const fs::path& container) {
  return {{"hostPath", host.string()}, {"containerPath", container.string()}, {"options", {"ro", "nosuid", "nodev", "bind"}}};
}

json Spec(const std::string& claim_uid, json edits) {
  json device{{"name", claim_uid}, {"containerEdits", std::move(edits)}};
  return {{"cdiVersion", kCdiVersion}, {"kind", kCdiKind}, {"devices", json::array({std::move(device)})}};
}

// In every container of a ComputeDomain, so that a workload need not guess from what is missing.
json CommonEnvironment(const Grant& grant) {
  return {"NVIDIA_COMPUTE_DOMAIN=" + ToString(grant.compute_domain), "NVIDIA_COMPUTE_DOMAIN_UID=" + grant.compute_domain.uid,
          std::string("NVIDIA_COMPUTE_DOMAIN_FABRIC=") + (grant.WithoutChannel() ? "false" : "true")};
}

std::string Marker(const ClaimEntry& entry) {
  json out{{"version", kMarkerVersion}, {"claim", api::EncodeRef(entry.claim)}, {"devices", EncodeDevices(entry.devices)}};
  if (entry.grant) out["grant"] = EncodeGrant(*entry.grant);
  return out.dump(1) + "\n";
}

// `<prefix><uid>.json` → uid; empty for other files.
std::string UidOf(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(kJson)) return "";
  return name.substr(prefix.size(), name.size() - prefix.size() - (sizeof kJson - 1));
}

json ChannelNode(int channel, std::uint32_t major) {
  return {{"path", fabric::ChannelDevicePath(channel)},
          {"type", "c"},
          {"major", major},
          {"minor", channel},
          {"fileMode", 0666},
          {"permissions", "rw"}};
}

}  // namespace

std::string CdiDeviceId(const std::string& claim_uid) {
  return std::string(kCdiKind) + "=" + claim_uid;
}

json NoChannelCdiSpec(const ClaimEntry& entry, const fs::path& marker) {
  const std::string name = entry.claim.uid + kJson;
  return Spec(entry.claim.uid, {{"env", CommonEnvironment(*entry.grant)},
                                {"mounts", json::array({ReadOnlyMount(marker, fs::path(kMarkerDirectory) / name)})}});
}

json ChannelCdiSpec(const ClaimEntry& entry, const ChannelDevices& devices, const fs::path& marker) {
  const Grant& grant = *entry.grant;
  const std::string name = entry.claim.uid + kJson;
  json nodes = json::array();
  const int first = grant.all_channels ? 0 : grant.channel;
  const int last = grant.all_channels ? devices.count - 1 : grant.channel;
  for (int channel = first; channel <= last; ++channel) nodes.push_back(ChannelNode(channel, devices.major));
  json environment = CommonEnvironment(grant);
  environment.push_back("NVIDIA_COMPUTE_DOMAIN_CHANNEL=" +
                        (grant.all_channels ? "0-" + std::to_string(last) : std::to_string(grant.channel)));
  environment.push_back("NVIDIA_COMPUTE_DOMAIN_CLIQUE=" + grant.clique_id);
  return Spec(entry.claim.uid, {{"env", std::move(environment)},
                                {"deviceNodes", std::move(nodes)},
                                {"mounts", json::array({ReadOnlyMount(marker, fs::path(kMarkerDirectory) / name)})}});
}

json DaemonCdiSpec(const ClaimEntry& entry, const DaemonMounts& mounts, const fabric::ImexCapability& capability) {
  json status = ReadOnlyMount(mounts.status_dir, "/imexd/status");
  status["options"] = {"rw", "nosuid", "nodev", "noexec", "bind"};
  return Spec(entry.claim.uid, {{"deviceNodes",
                                 {{{"path", capability.DevicePath()},
                                   {"type", "c"},
                                   {"major", capability.number.major},
                                   {"minor", capability.number.minor},
                                   {"fileMode", capability.capability.mode},
                                   {"permissions", "rw"}}}},
                                {"mounts", json::array({ReadOnlyMount(mounts.desired_dir, "/imexd/desired"), std::move(status),
                                                        ReadOnlyMount(mounts.imex, "/usr/bin/nvidia-imex"),
                                                        ReadOnlyMount(mounts.imex_ctl, "/usr/bin/nvidia-imex-ctl")})}});
}

fs::path ClaimFiles::CdiPath(const std::string& uid) const {
  return paths_.cdi_dir / (kCdiFilePrefix + uid + kJson);
}
fs::path ClaimFiles::MarkerPath(const std::string& uid) const {
  return paths_.plugin_dir / "claims" / (uid + kJson);
}

// A container may have the file mounted: the same content keeps the same inode.
Status ClaimFiles::ReplaceIfChanged(const fs::path& path, const std::string& content) const {
  if (const auto present = disk_.Read(path); present && *present == content) return {};
  const Status written = disk_.Replace(path, content, 0644);
  if (written || written.error().code != ErrorCode::kNotFound) return written;
  // Somebody deleted the directories.
  if (auto made = MakeDirectories(); !made) return made;
  return disk_.Replace(path, content, 0644);
}

Result<ClaimEntry> ClaimFiles::ReadMarker(const fs::path& path) const {
  auto text = disk_.Read(path, 64 << 10);
  if (!text) return Fail(text.error());
  const json object = json::parse(*text, nullptr, false);
  if (!object.is_object()) return Fail(ErrorCode::kInvalidArgument, "not a JSON object");
  return DecodeClaimParts(object, "");
}

std::vector<std::string> ClaimFiles::UidsIn(const fs::path& directory, std::string_view prefix) const {
  std::vector<std::string> uids;
  for (const std::string& name : disk_.Names(directory)) {
    if (std::string uid = UidOf(name, prefix); IsSafePathComponent(uid)) uids.push_back(std::move(uid));
  }
  return uids;
}

Status ClaimFiles::MakeDirectories() const {
  for (const fs::path& dir : {paths_.cdi_dir, paths_.plugin_dir / "claims", paths_.plugin_dir / "daemon" / "desired",
                              paths_.plugin_dir / "daemon" / "status"}) {
    if (auto made = disk_.MakeDirectories(dir); !made) return made;
  }
  return {};
}

// As the host sees it.
Result<fs::path> ClaimFiles::FindProgram(const char* program) const {
  std::string looked_in;
  for (const char* folder : kProgramFolders) {
    if (disk_.Exists(paths_.driver_root_mount / folder / program)) return paths_.driver_root / folder / program;
    looked_in.append(looked_in.empty() ? "" : ", ").append(folder);
  }
  return Fail(ErrorCode::kFailedPrecondition, std::string(program) + " is missing below " + paths_.driver_root.string() +
                                                  " (looked in " + looked_in +
                                                  "): install the IMEX package beside the driver, or correct driverRoot");
}

Result<std::string> ClaimFiles::DaemonSpec(const ClaimEntry& entry) const {
  const auto capability = fabric::ReadImexCapability(paths_.proc_devices, paths_.capabilities_dir);
  if (!capability) return Fail(ErrorCode::kFailedPrecondition, "IMEX capability device: " + capability.error().message);
  const auto imex = FindProgram("nvidia-imex");
  if (!imex) return Fail(imex.error());
  const auto imex_ctl = FindProgram("nvidia-imex-ctl");
  if (!imex_ctl) return Fail(imex_ctl.error());
  const DaemonMounts mounts{paths_.plugin_dir / "daemon" / "desired", paths_.plugin_dir / "daemon" / "status", *imex, *imex_ctl};
  return DaemonCdiSpec(entry, mounts, *capability).dump(1);
}

Status ClaimFiles::Write(const ClaimEntry& entry) const {
  const std::string& uid = entry.claim.uid;
  if (!entry.grant) {
    // It gets them mounted, and people may have deleted them.
    if (auto made = MakeDirectories(); !made) return made;
    const auto spec = DaemonSpec(entry);
    if (!spec) return Fail(spec.error());
    // Nothing mounts this one; it tells what the CDI spec is for should the checkpoint be lost.
    if (auto written = ReplaceIfChanged(MarkerPath(uid), Marker(entry)); !written) return written;
    return ReplaceIfChanged(CdiPath(uid), *spec);
  }
  if (entry.grant->WithoutChannel()) {
    if (auto written = ReplaceIfChanged(MarkerPath(uid), Marker(entry)); !written) return written;
    return ReplaceIfChanged(CdiPath(uid), NoChannelCdiSpec(entry, MarkerPath(uid)).dump(1));
  }
  const auto major = fabric::ReadChannelMajor(paths_.proc_devices);
  if (!major) return Fail(ErrorCode::kFailedPrecondition, "IMEX channel device: " + major.error().message);
  ChannelDevices devices{*major, 0};
  if (entry.grant->all_channels) {
    const auto count = fabric::ReadChannelCount(paths_.driver_parameters);
    if (!count) {
      return Fail(ErrorCode::kFailedPrecondition,
                  "allocationMode All: the number of IMEX channels is unknown: " + count.error().message);
    }
    devices.count = *count;
  }
  // The marker first: a container that has the channel must have the marker.
  if (auto written = ReplaceIfChanged(MarkerPath(uid), Marker(entry)); !written) return written;
  return ReplaceIfChanged(CdiPath(uid), ChannelCdiSpec(entry, devices, MarkerPath(uid)).dump(1));
}

Status ClaimFiles::RemoveCdiSpec(const std::string& uid) const {
  return IsSafePathComponent(uid) ? disk_.Remove(CdiPath(uid)) : Status{};
}
bool ClaimFiles::HasCdiSpec(const std::string& uid) const {
  return IsSafePathComponent(uid) && disk_.Exists(CdiPath(uid));
}
Status ClaimFiles::RemoveMarker(const std::string& uid) const {
  return IsSafePathComponent(uid) ? disk_.Remove(MarkerPath(uid)) : Status{};
}

Checkpoint ClaimFiles::Rebuild(std::vector<std::string>& unreadable) const {
  Checkpoint out;
  for (const std::string& uid : UidsIn(paths_.plugin_dir / "claims", "")) {
    auto entry = ReadMarker(MarkerPath(uid));
    if (!entry || entry->claim.uid != uid) {
      unreadable.push_back(MarkerPath(uid).string());
      continue;
    }
    if (disk_.Exists(CdiPath(uid))) {
      entry->phase = ClaimPhase::kCompleted;
      out.claims[uid] = std::move(*entry);
    } else if (entry->grant && !entry->grant->WithoutChannel()) {
      out.lingering[uid] = *entry->grant;
    }
  }
  return out;
}

void ClaimFiles::RemoveStrays(const Checkpoint& checkpoint) const {
  for (const std::string& uid : UidsIn(paths_.cdi_dir, kCdiFilePrefix)) {
    if (checkpoint.claims.contains(uid)) continue;
    LogInfo("removing the CDI spec of an unknown claim", {{"claimUID", uid}});
    static_cast<void>(RemoveCdiSpec(uid));
  }
  for (const std::string& uid : UidsIn(paths_.plugin_dir / "claims", "")) {
    if (!checkpoint.claims.contains(uid) && !checkpoint.lingering.contains(uid)) static_cast<void>(RemoveMarker(uid));
  }
}

}  // namespace cd::plugin
