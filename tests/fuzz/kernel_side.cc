#include <algorithm>

#include "src/base/files.h"
#include "src/fabric/device_numbers.h"
#include "src/plugin/process_scan.h"
#include "tests/fuzz/fuzz.h"

namespace cd::fuzz {

void ProcDevices(std::string_view input) {
  const auto major = fabric::FindCharacterMajor(input, fabric::kChannelDevices);
  if (major) {
    Require(*major >= 1 && *major <= fabric::kMaxMajor, "a major is within the kernel's range");
  } else {
    RequireWords(major.error(), input);
    RequirePrintable(major.error().message, 512);
  }
  const auto capability = fabric::ParseCapability(input);
  if (capability) {
    Require(capability->minor <= fabric::kMaxMinor && capability->mode <= 07777, "a capability is within the kernel's range");
  } else {
    RequireWords(capability.error(), input);
    RequirePrintable(capability.error().message, 512);
  }
}

void Mountinfo(std::string_view input) {
  const auto markers = plugin::MarkersIn(input);
  const auto lines = static_cast<std::size_t>(std::count(input.begin(), input.end(), '\n')) + 1;
  Require(markers.size() <= lines, "a line is one mount");
  for (const std::string& uid : markers) Require(IsSafePathComponent(uid), "a UID is a file name");
}

}  // namespace cd::fuzz
