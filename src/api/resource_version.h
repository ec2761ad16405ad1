// The order of resourceVersions: within one resource type they are decimal numbers that grow.
#pragma once

#include <charconv>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cd::api {

// Unordered when either is no number; then every comparison with 0 but != is false.
inline std::partial_ordering VersionOrder(std::string_view a, std::string_view b) {
  const auto number = [](std::string_view version) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    const char* const end = version.data() + version.size();
    const auto [next, error] = std::from_chars(version.data(), end, value);
    if (error != std::errc() || next != end) return std::nullopt;
    return value;
  };
  const auto left = number(a);
  const auto right = number(b);
  if (!left || !right) return std::partial_ordering::unordered;
  return *left <=> *right;
}

}  // namespace cd::api
