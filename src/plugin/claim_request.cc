#include "src/plugin/claim_request.h"

#include "src/base/files.h"

namespace cd::plugin {

namespace {

std::string NameOf(const api::ObjectRef& claim) {
  return "ResourceClaim " + ToString(claim);
}

}  // namespace

Status CheckRef(const api::ObjectRef& asked) {
  if (!IsSafePathComponent(asked.uid)) {
    return Fail(ErrorCode::kInvalidArgument, "claim UID: not a UID; the kubelet must pass the ResourceClaim's metadata.uid");
  }
  if (!IsSafePathComponent(asked.ns) || !IsSafePathComponent(asked.name)) {
    return Fail(ErrorCode::kInvalidArgument, "claim " + asked.uid + ": its namespace or name is no Kubernetes name");
  }
  return {};
}

Status StillWanted(const api::ResourceClaim& claim, const api::ObjectRef& asked, const std::string& node) {
  if (claim.meta.uid != asked.uid) {
    return Fail(ErrorCode::kFailedPrecondition,
                NameOf(asked) + " was replaced by another of the same name (UID " + claim.meta.uid + ")");
  }
  if (claim.meta.deleting) return Fail(ErrorCode::kFailedPrecondition, NameOf(asked) + " is being deleted");
  if (!claim.allocated) return Fail(ErrorCode::kFailedPrecondition, NameOf(asked) + " is not allocated");
  for (const api::AllocationResult& result : claim.results) {
    if (result.driver == api::kDriverName && result.pool != node) {
      return Fail(ErrorCode::kFailedPrecondition,
                  NameOf(asked) + " is allocated on node \"" + result.pool + "\", this is \"" + node + "\"");
    }
  }
  return {};
}

Result<ClaimRequest> ReadClaimRequest(const api::ResourceClaim& claim, const api::ObjectRef& asked, const std::string& node,
                                      const std::string& daemon_namespace) {
  if (auto wanted = StillWanted(claim, asked, node); !wanted) return Fail(wanted.error());
  ClaimRequest out;
  out.claim = asked;
  bool daemon = false;
  bool channel = false;
  for (const api::AllocationResult& result : claim.results) {
    if (result.driver != api::kDriverName) continue;
    const bool is_channel = api::IsChannelDevice(result.device);
    if (!is_channel && result.device != api::kDaemonDevice) {
      return Fail(ErrorCode::kInvalidArgument, NameOf(asked) + ": device \"" + result.device + "\" of request \"" +
                                                   result.request +
                                                   "\" is not one this driver offers; delete and recreate the pod");
    }
    (is_channel ? channel : daemon) = true;
    out.devices.push_back({result.request, result.pool, result.device, result.share_id});
  }
  if (out.devices.empty()) {
    return Fail(ErrorCode::kInvalidArgument, NameOf(asked) + " has no device of driver " + api::kDriverName);
  }
  if (daemon && channel) {
    return Fail(ErrorCode::kInvalidArgument, NameOf(asked) + " asks for a channel and the daemon device; use one claim for each");
  }
  if (daemon && asked.ns != daemon_namespace) {
    return Fail(ErrorCode::kInvalidArgument, NameOf(asked) + ": device class " + api::kDaemonDeviceClass +
                                                 " is for namespace \"" + daemon_namespace + "\" alone; workloads use class " +
                                                 api::kChannelDeviceClass);
  }
  auto config = api::ChannelConfigOf(claim);
  if (!config) return Fail(config.error());
  if (channel && !*config) return Fail(ErrorCode::kInternal, NameOf(asked) + ": a channel device without a config");
  if (channel) out.channel = **config;
  out.slots = claim.ChannelSlots();
  return out;
}

}  // namespace cd::plugin
