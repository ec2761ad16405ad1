#include "emulator/imex/identity.h"

#include <nlohmann/json.hpp>

namespace emu::imex {

nlohmann::json ToJson(const Identity& identity) {
  return {{"nodeId", identity.node_id},
          {"mapHash", identity.map_hash},
          {"version", identity.version},
          {"instance", identity.instance}};
}

Identity IdentityFromJson(const nlohmann::json& value) {
  Identity identity;
  identity.node_id = value.at("nodeId").get<int>();
  identity.map_hash = value.at("mapHash").get<std::string>();
  identity.version = value.at("version").get<std::string>();
  identity.instance = value.at("instance").get<std::string>();
  return identity;
}

Verdict Judge(const Identity& own, const Identity& other) {
  if (own.map_hash != other.map_hash) return Verdict::kMapMismatch;
  return own.version == other.version ? Verdict::kAccepted : Verdict::kVersionMismatch;
}

const char* Word(ConnectionStatus status) {
  switch (status) {
    case ConnectionStatus::kNeverConnected:
      return "NEVER_CONNECTED";
    case ConnectionStatus::kConnected:
      return "CONNECTED";
    case ConnectionStatus::kRecovering:
      return "RECOVERING";
    case ConnectionStatus::kDisconnected:
      return "DISCONNECTED";
    case ConnectionStatus::kVersionMismatch:
      return "VERSION_MISMATCH";
    case ConnectionStatus::kMapMismatch:
      return "MAP_MISMATCH";
  }
  return "";
}

}  // namespace emu::imex
