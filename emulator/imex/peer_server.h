// The port where other members connect.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "emulator/base/event_loop.h"
#include "emulator/base/json_stream.h"
#include "emulator/imex/identity.h"

namespace emu::imex {

class PeerServer {
 public:
  struct Events {
    // Another daemon greeted; what it is told.
    std::function<void(const Identity& peer, Verdict verdict)> greeted;
    // Its node wants memory of ours; `reply` takes {status, memory} and may be called later.
    std::function<void(int importer, uint64_t counter, int channel, std::function<void(nlohmann::json)> reply)> import;
    std::function<void(int importer, uint64_t counter)> release;
    std::function<void(const Identity& peer)> shutdown;
  };

  PeerServer(EventLoop& loop, UniqueFd listener, Identity own, Events events);
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;
  ~PeerServer();

  void AnnounceShutdown();

 private:
  struct Peer {
    std::unique_ptr<JsonStream> stream;
    Identity identity;
    bool accepted = false;
  };

  void AcceptPeers();
  void OnMessage(uint64_t id, const nlohmann::json& message);
  void OnHello(Peer& peer, const nlohmann::json& message);
  void OnImport(uint64_t id, const nlohmann::json& message);

  EventLoop& loop_;
  UniqueFd listener_;
  const Identity own_;
  const Events events_;
  std::map<uint64_t, Peer> peers_;
  uint64_t next_peer_ = 1;
};

}  // namespace emu::imex
