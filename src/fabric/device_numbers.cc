#include "src/fabric/device_numbers.h"

#include <charconv>
#include <optional>

#include "src/base/files.h"
#include "src/base/text.h"

namespace cd::fabric {
namespace {

constexpr std::string_view kBlank = " \t\r\v\f";

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Takes the next line off `text`, trimmed.
std::string_view TakeLine(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return Trim(line);
}

std::string Quoted(std::string_view text) {
  return "\"" + Printable(text, 80) + "\"";
}

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<std::uint32_t> FindMajorIn(const std::filesystem::path& proc_devices, std::string_view name) {
  auto text = ReadKernelFile(proc_devices, 1 << 20);
  if (!text) return Fail(text.error());
  auto major = FindCharacterMajor(*text, name);
  if (!major) return Fail(Annotate(major.error(), proc_devices.string()));
  return major;
}

}  // namespace

Result<std::uint32_t> FindCharacterMajor(std::string_view text, std::string_view name) {
  bool characters = false;
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    if (line.ends_with(':')) {
      characters = line.starts_with("Character");
      continue;
    }
    const std::size_t gap = line.find_first_of(kBlank);
    if (!characters || gap == std::string_view::npos || Trim(line.substr(gap)) != name) continue;
    const auto major = ParseNumber(line.substr(0, gap));
    if (!major || *major == 0 || *major > kMaxMajor) {
      return Fail(ErrorCode::kInvalidArgument, "the major of " + std::string(name) + " is " + Quoted(line.substr(0, gap)) +
                                                   ", not a number from 1 to " + std::to_string(kMaxMajor));
    }
    return static_cast<std::uint32_t>(*major);
  }
  return Fail(ErrorCode::kNotFound, "no character device " + std::string(name));
}

Result<Capability> ParseCapability(std::string_view text) {
  Capability capability;
  bool has_minor = false;
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = Trim(line.substr(0, colon));
    const std::string_view value = Trim(line.substr(colon + 1));
    const auto number = ParseNumber(value);
    const auto out_of_range = [&](std::uint64_t limit) {
      return Fail(ErrorCode::kInvalidArgument,
                  std::string(key) + " is " + Quoted(value) + ", not a number up to " + std::to_string(limit));
    };
    if (key == "DeviceFileMinor") {
      if (!number || *number > kMaxMinor) return out_of_range(kMaxMinor);
      capability.minor = static_cast<std::uint32_t>(*number);
      has_minor = true;
    } else if (key == "DeviceFileMode") {
      if (!number || *number > 07777) return out_of_range(07777);
      capability.mode = static_cast<mode_t>(*number);
    } else if (key == "DeviceFileModify") {
      if (!number) return out_of_range(1);
      capability.modify = *number != 0;
    }
  }
  if (!has_minor) return Fail(ErrorCode::kInvalidArgument, "no line DeviceFileMinor");
  return capability;
}

Result<int> FindChannelCount(std::string_view text) {
  constexpr std::string_view kKey = "ImexChannelCount";
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || Trim(line.substr(0, colon)) != kKey) continue;
    const std::string_view value = Trim(line.substr(colon + 1));
    const auto count = ParseNumber(value);
    if (!count || *count < 1 || *count > kMostChannels) {
      return Fail(ErrorCode::kInvalidArgument, std::string(kKey) + " is \"" + std::string(value) + "\", not a number from 1 to " +
                                                   std::to_string(kMostChannels) +
                                                   "; correct the driver's NVreg_ImexChannelCount");
    }
    return static_cast<int>(*count);
  }
  return Fail(ErrorCode::kNotFound, "no line " + std::string(kKey));
}

Result<int> ReadChannelCount(const std::filesystem::path& driver_parameters) {
  const auto text = ReadKernelFile(driver_parameters, 64 << 10);
  if (!text) return Fail(text.error());
  auto count = FindChannelCount(*text);
  if (!count) return Fail(Annotate(count.error(), driver_parameters.string()));
  return count;
}

Result<std::uint32_t> ReadChannelMajor(const std::filesystem::path& proc_devices) {
  auto major = FindMajorIn(proc_devices, kChannelDevices);
  if (!major && major.error().code == ErrorCode::kNotFound) {
    return Fail(Annotate(
        major.error(),
        "the NVIDIA driver offers no IMEX channels (load it, with NVreg_ImexChannelCount above 0, version 550 or later)"));
  }
  return major;
}

Result<ImexCapability> ReadImexCapability(const std::filesystem::path& proc_devices,
                                          const std::filesystem::path& capabilities_dir) {
  const std::filesystem::path file = capabilities_dir / kImexCapability;
  auto text = ReadKernelFile(file, 4096);
  if (!text) return Fail(Annotate(text.error(), "the NVIDIA driver offers no IMEX capability"));
  auto capability = ParseCapability(*text);
  if (!capability) return Fail(Annotate(capability.error(), file.string()));
  auto major = FindMajorIn(proc_devices, kCapabilityDevices);
  if (!major) return Fail(major.error());
  return ImexCapability{{*major, capability->minor}, *capability};
}

std::string ImexCapability::DevicePath() const {
  return "/dev/nvidia-caps/nvidia-cap" + std::to_string(number.minor);
}

std::string ChannelDevicePath(int channel) {
  return std::string("/dev/") + kChannelDevices + "/channel" + std::to_string(channel);
}

}  // namespace cd::fabric
