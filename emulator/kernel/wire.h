// JSON forms of what travels between the kernel model, nvidia-imex and clients.
#pragma once

#include <nlohmann/json.hpp>

#include "emulator/kernel/model.h"

namespace emu::kernel {

inline nlohmann::json ToJson(const Memory& memory) {
  return {{"cluster", memory.clique.cluster}, {"clique", memory.clique.id}, {"size", memory.size}, {"text", memory.text}};
}

inline Memory MemoryFromJson(const nlohmann::json& value) {
  Memory memory;
  memory.clique.cluster = value.at("cluster").get<std::string>();
  memory.clique.id = value.at("clique").get<uint32_t>();
  memory.size = value.at("size").get<uint64_t>();
  memory.text = value.at("text").get<std::string>();
  return memory;
}

inline nlohmann::json StatusReply(NvStatus status) {
  return {{"status", Names(status).nv}};
}

inline nlohmann::json ToReply(const NvResult<Memory>& result) {
  if (!result) return StatusReply(result.error());
  nlohmann::json reply = StatusReply(NvStatus::kOk);
  reply["memory"] = ToJson(*result);
  return reply;
}

}  // namespace emu::kernel
