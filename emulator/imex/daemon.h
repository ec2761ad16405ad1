// nvidia-imex: joins the parts and decides when to pass from one state to the next.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "emulator/base/event_loop.h"
#include "emulator/base/result.h"
#include "emulator/imex/command_service.h"
#include "emulator/imex/config.h"
#include "emulator/imex/daemon_state.h"
#include "emulator/imex/identity.h"
#include "emulator/imex/kernel_session.h"
#include "emulator/imex/log.h"
#include "emulator/imex/node_map.h"
#include "emulator/imex/peer_link.h"
#include "emulator/imex/peer_server.h"
#include "emulator/imex/persist.h"
#include "emulator/imex/resolver.h"

namespace emu::imex {

// What is settled before the daemon runs.
struct Startup {
  Config config;
  NodeMap map;
  OwnEntry own;
  std::string version;         // of this software, or NO_GPU
  bool gpu = true;             // false: --nogpu, no kernel session
  std::string node_directory;  // where the kernel's socket is
};

class Daemon {
 public:
  // `ready` is called once, on READY.
  Daemon(EventLoop& loop, Log& log, Startup startup, std::function<void()> ready);

  // Opens the ports. After that everything happens in the loop, which stops with the exit code.
  Result<void> Start();

  void OnSignal(int number);

 private:
  Result<void> Listen();
  void MakeLinks();
  void Enter(DaemonState state);
  void Advance();
  bool AllConnected(const std::set<int>& nodes) const;
  void OpenSession();
  void OnSessionOpened(const nlohmann::json& reply);
  void OnSessionLost(const std::string& why);
  void GiveUp(const std::string& why);

  void OnGreeted(const Identity& peer, Verdict verdict);
  void OnLocalImport(int exporter, uint64_t counter, int channel, uint64_t token);
  void OnLocalRelease(int exporter, uint64_t counter);
  void OnRemoteImport(int importer, uint64_t counter, int channel, const std::function<void(nlohmann::json)>& reply);
  void CleanUp(int node_id);
  void Remember(const Result<void>& saved);
  void RestartLinks();
  void ShutDown();
  nlohmann::json Describe() const;
  PeerLink* LinkTo(int node_id);

  EventLoop& loop_;
  Log& log_;
  const Startup startup_;
  const Identity identity_;
  std::function<void()> ready_;
  DaemonState state_ = DaemonState::kInitializing;
  std::set<int> awaited_;  // nodes whose connection the present state waits for
  Resolver resolver_;
  Persist persist_;
  PeerLink::Context link_context_;
  std::map<int, std::unique_ptr<PeerLink>> links_;
  std::unique_ptr<PeerServer> server_;
  CommandService commands_;
  std::unique_ptr<KernelSession> session_;
  std::optional<Milliseconds> last_restart_;
  EventLoop::Timer exit_;
};

}  // namespace emu::imex
