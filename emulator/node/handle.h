// A fabric handle as the kernel driver makes it: the exporting node's ID in the IMEX domain and a counter. Guessable: the
// handle names memory, the channel is what protects it.
#pragma once

#include <charconv>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace emu {

// Node ID of a kernel without an IMEX session.
inline constexpr int kNoNodeId = 0xffff;

struct Handle {
  int node_id = kNoNodeId;
  uint64_t counter = 0;
  auto operator<=>(const Handle&) const = default;
};

inline std::string ToString(const Handle& handle) {
  return std::to_string(handle.node_id) + ":" + std::to_string(handle.counter);
}

inline std::optional<Handle> ParseHandle(const std::string& text) {
  Handle handle;
  const char* end = text.data() + text.size();
  const auto node = std::from_chars(text.data(), end, handle.node_id);
  if (node.ec != std::errc() || node.ptr == end || *node.ptr != ':') return std::nullopt;
  const auto counter = std::from_chars(node.ptr + 1, end, handle.counter);
  if (counter.ec != std::errc() || counter.ptr != end) return std::nullopt;
  if (handle.node_id < 0 || handle.node_id > kNoNodeId) return std::nullopt;
  return handle;
}

}  // namespace emu
