#include "src/plugin/device_slice.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/resource_claim.h"
#include "src/base/json_text.h"
#include "src/base/text.h"

namespace cd::plugin {

using nlohmann::json;

namespace {

constexpr std::size_t kLongestName = 253;
constexpr char kSharing[] = "allowMultipleAllocations";

json Attributes(const char* type, int id, const SliceInput& input) {
  const bool fabric = !input.clique_id.empty();
  json attributes{{"type", {{"string", type}}}, {"id", {{"int", id}}}, {"fabric", {{"bool", fabric}}}};
  if (fabric) attributes["cliqueID"] = {{"string", input.clique_id}};
  return attributes;
}

json SharedChannel(const SliceInput& input) {
  const std::string slots = std::to_string(input.slots);
  json policy{{"default", "1"}, {"validRange", {{"min", "1"}, {"step", "1"}, {"max", slots}}}};
  return {{"name", api::ChannelDevice(0)},
          {kSharing, true},
          {"attributes", Attributes("channel", 0, input)},
          {"capacity", {{"slots", {{"value", slots}, {"requestPolicy", std::move(policy)}}}}}};
}

}  // namespace

json SliceDevices(const SliceInput& input) {
  json devices = json::array();
  if (input.offers_channel && input.mode == DeviceMode::kMulti) {
    devices.push_back(SharedChannel(input));
  } else if (input.offers_channel) {
    // The class selects id 0: every plain device is one slot of the same kind, told apart by its name alone.
    for (int i = 0; i < input.slots; ++i) {
      devices.push_back({{"name", api::ChannelDevice(i)}, {"attributes", Attributes("channel", 0, input)}});
    }
  }
  if (!input.clique_id.empty()) devices.push_back({{"name", api::kDaemonDevice}, {"attributes", Attributes("daemon", 0, input)}});
  return devices;
}

std::string SliceName(const std::string& node) {
  std::string name = node + "-" + api::kDriverName;
  if (name.size() <= kLongestName) return name;
  return std::to_string(StableHash(node)) + "-" + api::kDriverName;
}

json BuildSlice(const SliceInput& input, std::int64_t generation) {
  return {{"apiVersion", api::kResourceSlices.ApiVersion()},
          {"kind", api::kResourceSlices.kind},
          {"metadata", {{"name", SliceName(input.node)}}},
          {"spec",
           {{"driver", api::kDriverName},
            {"nodeName", input.node},
            {"pool", {{"name", input.node}, {"generation", generation}, {"resourceSliceCount", 1}}},
            {"devices", SliceDevices(input)}}}};
}

bool Covers(const json& actual, const json& wanted) {
  if (wanted.is_object()) {
    if (!actual.is_object()) return false;
    for (const auto& [key, value] : wanted.items()) {
      const auto it = actual.find(key);
      if (it == actual.end()) {
        // The server leaves empty lists out.
        if (value.is_array() && value.empty()) continue;
        return false;
      }
      if (!Covers(*it, value)) return false;
    }
    return true;
  }
  if (!wanted.is_array()) return actual == wanted;
  if (!actual.is_array() || actual.size() != wanted.size()) return wanted.empty() && actual.is_null();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!Covers(actual[i], wanted[i])) return false;
  }
  return true;
}

bool DroppedSharing(const json& stored) {
  for (const json& device : ArrayOf(MemberOf(stored, "spec"), "devices")) {
    if (TextOf(device, "name") == api::ChannelDevice(0)) return MemberOf(device, kSharing) != true;
  }
  return false;
}

}  // namespace cd::plugin
