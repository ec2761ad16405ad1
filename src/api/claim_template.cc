#include "src/api/claim_template.h"

#include <nlohmann/json.hpp>

#include "src/api/resource_claim.h"

namespace cd::api {

using nlohmann::json;

namespace {

constexpr char kRequest[] = "channel";

json OurLabels(const ComputeDomain& cd) {
  return {{kComputeDomainLabel, cd.meta.uid}, {kComputeDomainTargetLabel, "Workload"}};
}

json Selectors(const ComputeDomain& cd) {
  if (cd.fabric_policy != FabricPolicy::kRequired) return json::array();
  // A device without the attribute would be a CEL error, and that aborts the scheduling of the whole pod: hence has().
  const std::string attributes = std::string("device.attributes[\"") + kDriverName + "\"]";
  return {{{"cel", {{"expression", "has(" + attributes + ".fabric) && " + attributes + ".fabric"}}}}};
}

json Request(const ComputeDomain& cd, const NodeDevices& devices) {
  const bool whole_node = cd.isolation_mode == IsolationMode::kDomain;
  // All instead of a count: the allocator then sees at once that one of them is in use, where a count makes it try combinations.
  if (whole_node && devices.plain) return {{"deviceClassName", kChannelDeviceClass}, {"allocationMode", "All"}};
  json exactly = {{"deviceClassName", kChannelDeviceClass}, {"allocationMode", "ExactCount"}, {"count", 1}};
  if (whole_node) exactly["capacity"] = {{"requests", {{kSlotsCapacity, std::to_string(devices.slots)}}}};
  return exactly;
}

json ClaimSpec(const ComputeDomain& cd, const NodeDevices& devices) {
  json exactly = Request(cd, devices);
  if (json selectors = Selectors(cd); !selectors.empty()) exactly["selectors"] = std::move(selectors);
  const json parameters = EncodeChannelConfig({cd.meta.uid, cd.allocation_mode});
  return {{"devices",
           {{"requests", json::array({{{"name", kRequest}, {"exactly", std::move(exactly)}}})},
            {"config",
             json::array({{{"requests", {kRequest}}, {"opaque", {{"driver", kDriverName}, {"parameters", parameters}}}}})}}}};
}

}  // namespace

bool DroppedCapacity(const json& stored_template) {
  const auto at = "/spec/spec/devices/requests/0/exactly"_json_pointer;
  if (!stored_template.contains(at)) return false;
  const json& exactly = stored_template.at(at);
  return exactly.value("allocationMode", "") == "ExactCount" && !exactly.contains("capacity");
}

json EncodeClaimTemplate(const ComputeDomain& cd, const NodeDevices& devices) {
  json claim_labels = json::object();
  for (const auto& [name, value] : cd.meta.labels) claim_labels[name] = value;
  claim_labels.update(OurLabels(cd));
  return {{"apiVersion", kResourceClaimTemplates.ApiVersion()},
          {"kind", kResourceClaimTemplates.kind},
          {"metadata",
           {{"name", cd.claim_template_name},
            {"namespace", cd.meta.ns},
            {"labels", OurLabels(cd)},
            // Deleted by us with the ComputeDomain; the garbage collector has it should we be down for ever.
            {"ownerReferences", json::array({{{"apiVersion", kComputeDomains.ApiVersion()},
                                              {"kind", kComputeDomains.kind},
                                              {"name", cd.meta.name},
                                              {"uid", cd.meta.uid},
                                              {"controller", true},
                                              {"blockOwnerDeletion", false}}})}}},
          {"spec", {{"metadata", {{"labels", std::move(claim_labels)}}}, {"spec", ClaimSpec(cd, devices)}}}};
}

}  // namespace cd::api
