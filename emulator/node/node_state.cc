#include "emulator/node/node_state.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "emulator/base/files.h"

namespace emu {
namespace {

using nlohmann::json;

Result<std::array<uint8_t, 16>> ParseUuid(const std::string& text) {
  std::array<uint8_t, 16> bytes{};
  size_t digits = 0;
  for (char c : text) {
    if (c == '-') continue;
    const char* hex = "0123456789abcdef";
    const char* at = std::strchr(hex, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
    if (c == '\0' || at == nullptr || digits == 32) return Fail("clusterUuid \"" + text + "\" is not a UUID");
    bytes[digits / 2] = static_cast<uint8_t>(bytes[digits / 2] << 4 | (at - hex));
    ++digits;
  }
  if (digits != 0 && digits != 32) return Fail("clusterUuid \"" + text + "\" is not a UUID");
  return bytes;
}

Result<FabricState> ParseFabricState(const std::string& word) {
  if (word == "completed") return FabricState::kCompleted;
  if (word == "in_progress") return FabricState::kInProgress;
  if (word == "not_started") return FabricState::kNotStarted;
  if (word == "not_supported") return FabricState::kNotSupported;
  return Fail("unknown fabric state \"" + word + "\"");
}

// The status is a word for the common cases and otherwise the nvmlReturn_t number itself.
Result<uint32_t> ParseStatus(const json& value) {
  if (value.is_number_unsigned()) return value.get<uint32_t>();
  const std::string word = value.is_string() ? value.get<std::string>() : value.dump();
  if (word == "success") return 0U;
  if (word == "not_supported") return 3U;
  if (word == "unknown") return 999U;
  return Fail("unknown fabric status " + value.dump());
}

Result<Gpu> ParseGpu(const json& value) {
  Gpu gpu;
  gpu.uuid = value.at("uuid").get<std::string>();
  auto cluster = ParseUuid(value.value("clusterUuid", std::string()));
  if (!cluster) return tl::unexpected(cluster.error());
  gpu.cluster_uuid = *cluster;
  gpu.clique_id = value.value("cliqueId", 0U);
  auto state = ParseFabricState(value.value("state", std::string("completed")));
  if (!state) return tl::unexpected(state.error());
  gpu.state = *state;
  auto status = ParseStatus(value.value("status", json("success")));
  if (!status) return tl::unexpected(status.error());
  gpu.status = *status;
  gpu.health_mask = value.value("healthMask", 0U);
  gpu.health_summary = value.value("healthSummary", uint8_t{0});
  gpu.recovery_action = value.value("recoveryAction", 0U);
  gpu.fabric_query_supported = value.value("fabricQuerySupported", true);
  gpu.chassis_serial = value.value("chassisSerial", std::string());
  gpu.slot_number = value.value("slotNumber", uint8_t{0});
  gpu.tray_index = value.value("trayIndex", uint8_t{0});
  gpu.host_id = value.value("hostId", uint8_t{0});
  gpu.module_id = value.value("moduleId", uint8_t{0});
  return gpu;
}

Result<NodeState> FromJson(const json& value) {
  NodeState state;
  state.node = value.value("node", std::string());
  state.driver_version = value.at("driverVersion").get<std::string>();
  state.imex_version = value.value("imexVersion", state.driver_version);
  state.channel_count = value.value("channelCount", 2048);
  for (const json& item : value.value("gpus", json::array())) {
    auto gpu = ParseGpu(item);
    if (!gpu) return Fail("gpus[" + std::to_string(state.gpus.size()) + "]: " + gpu.error().message);
    state.gpus.push_back(*std::move(gpu));
  }
  return state;
}

}  // namespace

std::string NodeDirectory() {
  const char* directory = std::getenv("MNNVL_DIR");
  return directory != nullptr && *directory != '\0' ? directory : "/run/mnnvl";
}

Result<NodeState> ParseNodeState(const std::string& text) {
  try {
    return FromJson(json::parse(text));
  } catch (const json::exception& e) {
    return Fail(std::string("node.json: ") + e.what());
  }
}

Result<NodeState> ReadNodeState(const std::string& directory) {
  auto text = ReadFile(directory + "/node.json");
  if (!text) return tl::unexpected(text.error());
  return ParseNodeState(*text);
}

}  // namespace emu
