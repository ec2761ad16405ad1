// The outgoing link to one member of the domain: kept up for ever, whatever happens to the other side.
//
// Messages, JSON lines: {"type":"hello", identity…} both ways, the answer with "verdict"; then {"type":"import", id,
// counter, channel} -> {"type":"importReply", id, status, memory}; {"type":"release", counter}; {"type":"shutdown"} from
// either side.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>

#include "emulator/base/dial.h"
#include "emulator/base/event_loop.h"
#include "emulator/base/json_stream.h"
#include "emulator/imex/identity.h"
#include "emulator/imex/log.h"
#include "emulator/imex/resolver.h"

namespace emu::imex {

// Timing of the attempts, as observed on the real daemon: from 0.5 s doubling to 3 s.
struct Backoff {
  Milliseconds first{500};
  Milliseconds longest{3000};
};

class PeerLink {
 public:
  struct Target {
    int node_id;
    std::string entry;  // of the node map
    int port;
    int family;             // of the own address; preferred among several
    std::string interface;  // scope of link-local addresses
  };
  // What all links of a daemon share. The callbacks may not destroy the link.
  struct Context {
    EventLoop& loop;
    Resolver& resolver;
    Log& log;
    Identity own;
    int grace_seconds;
    Backoff backoff;
    std::function<void()> status_changed;
    std::function<void(int node_id)> clean_up;  // invalidate what was imported from, and release what was exported to it
  };
  using ImportDone = std::function<void(const nlohmann::json& reply)>;  // {status, memory}

  PeerLink(Context& context, Target target);
  ~PeerLink();

  void Start() { Attempt(); }

  // Drops the connection, resolves and connects anew; the same daemon on the other side keeps everything.
  void Restart();

  // Asks the peer for an export of its node. Without a connection the answer is a failure at once.
  void Import(uint64_t counter, int channel, ImportDone done);
  void Release(uint64_t counter);
  void AnnounceShutdown();

  // The peer said that it stops, here or on its own link to us: it will not come back as the same instance.
  void OnPeerShutdown();
  // The peer greeted us, on its own link, as this instance.
  void OnPeerInstance(const std::string& instance);
  // The peer refused or was refused, on its own link.
  void OnRefused(Verdict verdict);

  ConnectionStatus status() const { return status_; }
  const Target& target() const { return target_; }

 private:
  struct Waiting {
    EventLoop::Timer timer;
  };
  struct Resolving {
    uint64_t question;
  };
  struct Greeting {
    std::unique_ptr<JsonStream> stream;
    EventLoop::Timer timeout;
  };
  struct Connected {
    std::unique_ptr<JsonStream> stream;
  };
  struct Refused {};  // for the life of this process: node maps differ
  using State = std::variant<Waiting, Resolving, std::unique_ptr<Dial>, Greeting, Connected, Refused>;

  void Attempt();
  void OnResolved(const std::vector<std::string>& addresses);
  void OnDialled(Result<UniqueFd> socket);
  void OnMessage(const nlohmann::json& message);
  void OnGreeted(const nlohmann::json& answer);
  void OnStreamClosed(const std::string& why);
  void AttemptFailed(const std::string& why);
  void OnLost();
  void StartGrace();
  void CleanUp();
  void FailImports();
  void LeaveState();
  void SetStatus(ConnectionStatus status);
  std::string Name() const;

  Context& context_;
  const Target target_;
  State state_ = Waiting{};
  ConnectionStatus status_ = ConnectionStatus::kNeverConnected;
  std::string instance_;  // of the peer as last connected; empty: none whose imports could still be valid
  std::string address_;
  Milliseconds delay_;
  int attempts_ = 0;
  int times_connected_ = 0;
  bool grace_started_ = false;
  EventLoop::Timer grace_;
  std::map<uint64_t, ImportDone> imports_;
  uint64_t next_import_ = 1;
};

}  // namespace emu::imex
