#include "src/controller/work_key.h"

#include <array>
#include <string_view>
#include <utility>

namespace cd::controller {

namespace {

constexpr std::array kPrefixes{std::pair<std::string_view, WorkKind>{"domain/", WorkKind::kImexDomain},
                               std::pair<std::string_view, WorkKind>{"node/", WorkKind::kNode},
                               std::pair<std::string_view, WorkKind>{"cd/", WorkKind::kComputeDomain}};

}  // namespace

std::string Format(const WorkKey& key) {
  for (const auto& [prefix, kind] : kPrefixes) {
    if (kind == key.kind) return std::string(prefix) + ToString(key.object);
  }
  return "";
}

WorkKey ParseWorkKey(const std::string& text) {
  for (const auto& [prefix, kind] : kPrefixes) {
    if (!text.starts_with(prefix)) continue;
    const std::string object = text.substr(prefix.size());
    const std::size_t slash = object.find('/');
    if (slash == std::string::npos) return {kind, {"", object}};
    return {kind, {object.substr(0, slash), object.substr(slash + 1)}};
  }
  return {};
}

}  // namespace cd::controller
