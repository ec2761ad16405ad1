// What waits in the work queue: the names of objects to reconcile. The queue itself holds text.
#pragma once

#include <string>

#include "src/api/meta.h"

namespace cd::controller {

enum class WorkKind { kImexDomain, kNode, kComputeDomain };

struct WorkKey {
  WorkKind kind = WorkKind::kImexDomain;
  api::ObjectKey object;  // a node's is its IMEXNode's
  bool operator==(const WorkKey&) const = default;
};

// "domain/<IMEXDomain>", "node/<node>", "cd/<namespace>/<name>"; the names of Kubernetes objects have no slash.
std::string Format(const WorkKey& key);
// Only of what Format made.
WorkKey ParseWorkKey(const std::string& text);

inline std::string ImexDomainKey(const std::string& name) {
  return Format({WorkKind::kImexDomain, {"", name}});
}
inline std::string NodeKey(const std::string& name) {
  return Format({WorkKind::kNode, {"", name}});
}
inline std::string ComputeDomainKey(const api::ObjectKey& key) {
  return Format({WorkKind::kComputeDomain, key});
}

}  // namespace cd::controller
