// Metadata shared by every Kubernetes object this project reads or writes.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/base/result.h"

namespace cd::api {

// Names that other software relies on; they never change.
inline constexpr char kDriverName[] = "compute-domain.nvidia.com";
inline constexpr char kGroup[] = "resource.nvidia.com";
inline constexpr char kComputeDomainLabel[] = "resource.nvidia.com/computeDomain";
inline constexpr char kComputeDomainTargetLabel[] = "resource.nvidia.com/computeDomainTarget";
inline constexpr char kCliqueLabel[] = "nvidia.com/gpu.clique";
inline constexpr char kDaemonNodeLabel[] = "resource.nvidia.com/imex-daemon";
inline constexpr char kFinalizer[] = "resource.nvidia.com/computeDomain";
inline constexpr char kWakeAnnotation[] = "resource.nvidia.com/wake";
// Of the IMEX daemon's pods: names the state of their template.
inline constexpr char kDaemonRevisionLabel[] = "resource.nvidia.com/daemon-revision";
inline constexpr char kChannelDeviceClass[] = "compute-domain-default-channel.nvidia.com";
inline constexpr char kDaemonDeviceClass[] = "compute-domain-daemon.nvidia.com";

// Where a kind is served. `group` is empty for the core group.
struct ResourceType {
  std::string group;
  std::string version;
  std::string kind;
  std::string plural;
  bool namespaced = false;

  std::string ApiVersion() const { return group.empty() ? version : group + "/" + version; }
};

extern const ResourceType kComputeDomains;          // resource.nvidia.com/v1beta2
extern const ResourceType kImexDomains;             // resource.nvidia.com/v1alpha1
extern const ResourceType kImexNodes;               // resource.nvidia.com/v1alpha1
extern const ResourceType kResourceClaims;          // resource.k8s.io/v1
extern const ResourceType kResourceClaimTemplates;  // resource.k8s.io/v1
extern const ResourceType kResourceSlices;          // resource.k8s.io/v1
extern const ResourceType kNodes;                   // v1
extern const ResourceType kPods;                    // v1
extern const ResourceType kLeases;                  // coordination.k8s.io/v1
extern const ResourceType kEvents;                  // events.k8s.io/v1

// (namespace, name); `ns` is empty for cluster-scoped objects.
struct ObjectKey {
  std::string ns;
  std::string name;
  auto operator<=>(const ObjectKey&) const = default;
};

// The three parts that identify one life of an object: a name may be reused, a UID is not.
struct ObjectRef {
  std::string ns;
  std::string name;
  std::string uid;
  auto operator<=>(const ObjectRef&) const = default;
};

// "namespace/name", or the name alone of a cluster-scoped object: for messages and logs.
std::string ToString(const ObjectKey& key);
std::string ToString(const ObjectRef& ref);

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  bool operator==(const OwnerReference&) const = default;
};

struct ObjectMeta {
  std::string ns;
  std::string name;
  std::string uid;
  // Opaque: compared for equality only, sent back as a precondition.
  std::string resource_version;
  std::int64_t generation = 0;
  std::string creation_timestamp;  // RFC 3339, empty before creation
  bool deleting = false;           // deletionTimestamp is set
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::vector<std::string> finalizers;
  std::vector<OwnerReference> owners;

  ObjectKey Key() const { return {ns, name}; }
  ObjectRef Ref() const { return {ns, name, uid}; }
  bool HasFinalizer(const std::string& finalizer) const;
};

// Reads `metadata`; an object without name is an error, anything else may be missing.
Result<ObjectMeta> DecodeMeta(const nlohmann::json& object);
// The parts a writer owns: name, namespace, resourceVersion (if set), uid (if set), labels, annotations, finalizers, owners.
nlohmann::json EncodeMeta(const ObjectMeta& meta);

// A condition as in metav1.Condition. Times are RFC 3339 strings made by the caller's clock.
struct Condition {
  std::string type;
  std::string status;  // True | False | Unknown
  std::string reason;
  std::string message;
  std::int64_t observed_generation = 0;
  std::string last_transition_time;
  bool operator==(const Condition&) const = default;
};

}  // namespace cd::api
