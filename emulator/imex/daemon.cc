#include "emulator/imex/daemon.h"

#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <random>

#include "emulator/base/net.h"
#include "emulator/node/nv_status.h"

namespace emu::imex {
namespace {

using nlohmann::json;

// SIGUSR1 within this time of the last one is ignored, without a word.
constexpr Milliseconds kMinimumRestartInterval{5000};
// How long a driver that does not answer may hold up the end.
constexpr Milliseconds kCloseTimeout{1000};

std::string RandomInstance() {
  std::random_device random;
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", random(), random());
  return text;
}

json Failure(NvStatus status) {
  return {{"status", Names(status).nv}};
}

}  // namespace

Daemon::Daemon(EventLoop& loop, Log& log, Startup startup, std::function<void()> ready)
    : loop_(loop),
      log_(log),
      startup_(std::move(startup)),
      identity_{startup_.own.id, startup_.map.Hash(), startup_.version, RandomInstance()},
      ready_(std::move(ready)),
      resolver_(loop),
      persist_(kPersistDirectory, identity_.map_hash),
      link_context_{loop,
                    resolver_,
                    log,
                    identity_,
                    startup_.config.grace_seconds,
                    Backoff{},
                    [this] { Advance(); },
                    [this](int node_id) { CleanUp(node_id); }},
      commands_(loop, [this] { return Describe(); }) {}

Result<void> Daemon::Start() {
  const auto listening = Listen();
  if (!listening) return listening;
  if (!persist_.Exists()) {
    log_.Info("nvidia-imex persistence file " + persist_.path() + " does not exist.  Assuming no previous importers.");
  }
  MakeLinks();
  const Quorum quorum = startup_.config.quorum;
  if (quorum == Quorum::kFull) {
    for (const auto& [id, link] : links_) awaited_.insert(id);
    Enter(DaemonState::kWaitingForPeers);
  } else {
    log_.Info("IMEX_WAIT_FOR_QUORUM != FULL, continuing initialization without waiting for connections to all nodes.");
    if (quorum == Quorum::kRecovery) awaited_ = persist_.PreviousImporters();
    if (!awaited_.empty()) Enter(DaemonState::kWaitingForRecovery);
  }
  for (auto& [id, link] : links_) link->Start();
  Advance();
  return {};
}

Result<void> Daemon::Listen() {
  const Config& config = startup_.config;
  auto peers = ListenTcp(startup_.own.ip, config.server_port, config.interface);
  if (!peers) return tl::unexpected(peers.error());
  server_ = std::make_unique<PeerServer>(
      loop_, *std::move(peers), identity_,
      PeerServer::Events{[this](const Identity& peer, Verdict verdict) { OnGreeted(peer, verdict); },
                         [this](int importer, uint64_t counter, int channel, const std::function<void(json)>& reply) {
                           OnRemoteImport(importer, counter, channel, reply);
                         },
                         [this](int importer, uint64_t counter) {
                           if (session_) session_->ReleaseDuplicate(counter, importer);
                         },
                         [this](const Identity& peer) {
                           if (PeerLink* link = LinkTo(peer.node_id)) link->OnPeerShutdown();
                         }});
  if (!config.cmd_enabled) return {};
  if (config.cmd_port) {
    auto commands = ListenTcp(config.cmd_bind_ip, *config.cmd_port, config.interface);
    if (!commands) return tl::unexpected(commands.error());
    commands_.Serve(*std::move(commands));
  }
  if (!config.cmd_unix_path.empty()) {
    auto commands = ListenUnix(config.cmd_unix_path, 0600);
    if (!commands) return tl::unexpected(commands.error());
    commands_.Serve(*std::move(commands));
  }
  return {};
}

void Daemon::MakeLinks() {
  const auto own = ParseAddress(startup_.own.ip, 0);
  const auto& entries = startup_.map.entries;
  for (size_t id = 0; id < entries.size(); ++id) {
    if (!IsAddress(entries[id])) log_.Info("Treating node config entry '" + entries[id] + "' as a host name.");
    links_[static_cast<int>(id)] =
        std::make_unique<PeerLink>(link_context_, PeerLink::Target{static_cast<int>(id), entries[id], startup_.config.server_port,
                                                                   own ? own->family() : 0, startup_.config.interface});
  }
  log_.Info("Creating gRPC channels to all peers (nPeers = " + std::to_string(entries.size()) + ")");
}

PeerLink* Daemon::LinkTo(int node_id) {
  const auto found = links_.find(node_id);
  return found == links_.end() ? nullptr : found->second.get();
}

void Daemon::Enter(DaemonState state) {
  state_ = state;
  log_.Verbose(std::string("State: ") + Word(state));
  commands_.StateChanged();
}

bool Daemon::AllConnected(const std::set<int>& nodes) const {
  for (const int id : nodes) {
    const auto found = links_.find(id);
    if (found != links_.end() && found->second->status() != ConnectionStatus::kConnected) return false;
  }
  return true;
}

// Called whenever a connection changes: waiting ends with the last awaited node.
void Daemon::Advance() {
  if (state_ >= DaemonState::kInitGpu || !AllConnected(awaited_)) return;
  Enter(DaemonState::kInitGpu);
  if (startup_.gpu) return OpenSession();
  Enter(DaemonState::kReady);
  ready_();
}

void Daemon::OpenSession() {
  session_ = std::make_unique<KernelSession>(
      loop_, startup_.node_directory + "/kernel.sock", startup_.own.id, startup_.version,
      KernelSession::Events{[this](int exporter, uint64_t counter, int channel, uint64_t token) {
                              OnLocalImport(exporter, counter, channel, token);
                            },
                            [this](int exporter, uint64_t counter) { OnLocalRelease(exporter, counter); },
                            [this](const std::string& why) { OnSessionLost(why); }},
      [this](const json& reply) { OnSessionOpened(reply); });
}

void Daemon::OnSessionOpened(const json& reply) {
  if (state_ != DaemonState::kInitGpu) return;
  const NvStatus status = NvStatusFromName(reply.at("status").get<std::string>());
  if (status == NvStatus::kVersionMismatch) {
    return GiveUp("NvGpu Library version " + startup_.version + " is not matching with current GPU driver version " +
                  reply.value("driverVersion", std::string("unknown")));
  }
  if (status != NvStatus::kOk) {
    return GiveUp(std::string("Failed to open the IMEX session with the GPU driver: ") + Names(status).nv);
  }
  log_.Info("NvGpu Library version matched with GPU Driver version");
  log_.Info("GPU event successfully subscribed");
  Enter(DaemonState::kReady);
  ready_();
}

void Daemon::OnSessionLost(const std::string& why) {
  if (state_ == DaemonState::kShuttingDown) return loop_.Stop(0);
  GiveUp("Lost the GPU driver: " + why);
}

void Daemon::GiveUp(const std::string& why) {
  log_.Write(Level::kCritical, why);
  loop_.Stop(1);
}

void Daemon::OnGreeted(const Identity& peer, Verdict verdict) {
  PeerLink* link = LinkTo(peer.node_id);
  if (link == nullptr) return;
  if (verdict == Verdict::kAccepted) return link->OnPeerInstance(peer.instance);
  link->OnRefused(verdict);
}

void Daemon::OnLocalImport(int exporter, uint64_t counter, int channel, uint64_t token) {
  PeerLink* link = LinkTo(exporter);
  if (link == nullptr) return session_->FinishImport(token, Failure(NvStatus::kObjectNotFound));
  link->Import(counter, channel, [this, token, exporter](const json& reply) {
    const NvStatus status = NvStatusFromName(reply.at("status").get<std::string>());
    if (status != NvStatus::kOk) {
      log_.Error("Received import response from node id " + std::to_string(exporter) + " with failure status " +
                 Names(status).nv);
    }
    if (session_) session_->FinishImport(token, reply);
  });
}

void Daemon::OnLocalRelease(int exporter, uint64_t counter) {
  if (PeerLink* link = LinkTo(exporter)) link->Release(counter);
}

void Daemon::OnRemoteImport(int importer, uint64_t counter, int channel, const std::function<void(json)>& reply) {
  if (!session_ || state_ != DaemonState::kReady) return reply(Failure(NvStatus::kInvalidState));
  session_->Duplicate(counter, channel, importer, [this, importer, reply](const json& result) {
    json answer = {{"status", result.at("status")}};
    if (result.contains("memory")) {
      answer["memory"] = result["memory"];
      Remember(persist_.Add(importer));
    }
    reply(answer);
  });
}

void Daemon::CleanUp(int node_id) {
  if (session_) session_->DropNode(node_id);
  Remember(persist_.Remove(node_id));
}

void Daemon::Remember(const Result<void>& saved) {
  if (!saved) log_.Warning(saved.error().message);
}

void Daemon::OnSignal(int number) {
  if (number == SIGHUP) return log_.DumpVerbose();
  if (number == SIGUSR1) return RestartLinks();
  ShutDown();
}

void Daemon::RestartLinks() {
  const Milliseconds now = EventLoop::Now();
  if (last_restart_ && now - *last_restart_ < kMinimumRestartInterval) return;
  last_restart_ = now;
  log_.Info("Restarting connections to all peers");
  for (auto& [id, link] : links_) link->Restart();
}

void Daemon::ShutDown() {
  if (state_ == DaemonState::kShuttingDown) return;
  Enter(DaemonState::kShuttingDown);
  log_.Info("Shutting down");
  for (auto& [id, link] : links_) {
    if (id != startup_.own.id) link->AnnounceShutdown();
  }
  server_->AnnounceShutdown();
  persist_.Clear();
  log_.DumpVerbose();
  if (!session_) return loop_.Stop(0);
  exit_ = loop_.After(kCloseTimeout, [this] { loop_.Stop(0); });
  session_->Close([this] { loop_.Stop(0); });
}

json Daemon::Describe() const {
  char host_name[256] = "";
  ::gethostname(host_name, sizeof host_name - 1);
  json connections = json::object();
  for (const auto& [id, link] : links_) connections[std::to_string(id)] = Word(link->status());
  return {{"state", Word(state_)},
          {"version", startup_.version},
          {"nodeId", startup_.own.id},
          {"hostName", host_name},
          {"connections", std::move(connections)}};
}

}  // namespace emu::imex
