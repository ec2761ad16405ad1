// What a daemon says of itself when it greets another.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace emu::imex {

struct Identity {
  int node_id = -1;
  std::string map_hash;
  std::string version;   // of the driver, or NO_GPU
  std::string instance;  // random, new with every start
};

nlohmann::json ToJson(const Identity& identity);
Identity IdentityFromJson(const nlohmann::json& value);

enum class Verdict { kAccepted, kMapMismatch, kVersionMismatch };

// May two daemons talk? There is no other identity than the node map: a daemon of another domain with an equal map is
// taken for a member.
Verdict Judge(const Identity& own, const Identity& other);

// Peers whose node map differs and those of another version refuse each other. Values are the words of -N -j.
enum class ConnectionStatus {
  kNeverConnected,
  kConnected,
  kRecovering,    // lost; what was imported over it is kept
  kDisconnected,  // lost, and what was imported is invalidated
  kVersionMismatch,
  kMapMismatch,
};

const char* Word(ConnectionStatus status);

}  // namespace emu::imex
