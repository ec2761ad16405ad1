#include "emulator/imex/peer_link.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "emulator/base/net.h"
#include "emulator/node/nv_status.h"

namespace emu::imex {
namespace {

using nlohmann::json;

constexpr Milliseconds kConnectTimeout{3000};
constexpr Milliseconds kGreetingTimeout{5000};

}  // namespace

PeerLink::PeerLink(Context& context, Target target)
    : context_(context), target_(std::move(target)), delay_(context.backoff.first) {}

PeerLink::~PeerLink() {
  LeaveState();
}

std::string PeerLink::Name() const {
  return std::to_string(target_.node_id) + " - " + target_.entry;
}

void PeerLink::LeaveState() {
  if (const auto* resolving = std::get_if<Resolving>(&state_)) context_.resolver.Cancel(resolving->question);
}

void PeerLink::Attempt() {
  LeaveState();
  ++attempts_;
  context_.log.Verbose("Attempting connection for target node " + Name() + ":" + std::to_string(target_.port) + ", attempt #" +
                       std::to_string(attempts_));
  state_ = Resolving{
      context_.resolver.Start(target_.entry, [this](const std::vector<std::string>& addresses) { OnResolved(addresses); })};
}

void PeerLink::OnResolved(const std::vector<std::string>& addresses) {
  Result<SocketAddress> chosen = Fail("no address for " + target_.entry);
  for (const std::string& ip : addresses) {
    auto address = ParseAddress(ip, target_.port, target_.interface);
    if (!address || (chosen && address->family() != target_.family)) continue;
    const bool preferred = address->family() == target_.family;
    chosen = std::move(address);
    address_ = ip;
    if (preferred) break;
  }
  if (!chosen) return AttemptFailed(chosen.error().message);
  state_ = std::make_unique<Dial>(context_.loop, *chosen, kConnectTimeout,
                                  [this](Result<UniqueFd> socket) { OnDialled(std::move(socket)); });
}

void PeerLink::OnDialled(Result<UniqueFd> socket) {
  if (!socket) return AttemptFailed(socket.error().message);
  EnableKeepAlive(*socket);
  auto stream = std::make_unique<JsonStream>(
      context_.loop, *std::move(socket), [this](const json& message) { OnMessage(message); },
      [this](const std::string& why) { OnStreamClosed(why); });
  json hello = ToJson(context_.own);
  hello["type"] = "hello";
  stream->Send(hello);
  state_ = Greeting{std::move(stream), context_.loop.After(kGreetingTimeout, [this] { AttemptFailed("no answer"); })};
}

void PeerLink::OnMessage(const json& message) {
  const auto type = message.at("type").get<std::string>();
  if (type == "hello" && std::holds_alternative<Greeting>(state_)) return OnGreeted(message);
  if (type == "shutdown") return OnPeerShutdown();
  if (type == "importReply") {
    const auto waiting = imports_.extract(message.at("id").get<uint64_t>());
    if (!waiting.empty()) waiting.mapped()(message);
  }
}

void PeerLink::OnGreeted(const json& answer) {
  const Identity peer = IdentityFromJson(answer);
  const Verdict verdict = Judge(context_.own, peer);
  if (verdict != Verdict::kAccepted) return OnRefused(verdict);
  Connected connected{std::move(std::get<Greeting>(state_).stream)};
  state_ = std::move(connected);
  grace_.Cancel();
  grace_started_ = false;
  // A new instance knows nothing of what the old one exported.
  if (!instance_.empty() && instance_ != peer.instance) context_.clean_up(target_.node_id);
  instance_ = peer.instance;
  attempts_ = 0;
  delay_ = context_.backoff.first;
  context_.log.Info("Connection established to node " + std::to_string(target_.node_id) + " with ip address " + address_ +
                    ". Number of times connected: " + std::to_string(++times_connected_));
  if (peer.node_id != target_.node_id) {
    context_.log.Warning("The daemon at " + address_ + " calls itself node " + std::to_string(peer.node_id) +
                         ", the node configuration says " + std::to_string(target_.node_id));
  }
  SetStatus(ConnectionStatus::kConnected);
}

void PeerLink::OnStreamClosed(const std::string& why) {
  if (std::holds_alternative<Connected>(state_)) return OnLost();
  AttemptFailed(why);
}

void PeerLink::OnLost() {
  state_ = Waiting{context_.loop.After(delay_, [this] { Attempt(); })};
  context_.log.Warning("Connection lost to node " + std::to_string(target_.node_id) + ": " + address_ + ":" +
                       std::to_string(target_.port));
  FailImports();
  // After an announced shutdown the clean-up is done already.
  if (status_ != ConnectionStatus::kConnected) return;
  SetStatus(ConnectionStatus::kRecovering);
  StartGrace();
}

void PeerLink::AttemptFailed(const std::string& why) {
  context_.log.Verbose("Connection to node " + Name() + " failed: " + why);
  state_ = Waiting{context_.loop.After(delay_, [this] { Attempt(); })};
  delay_ = std::min(delay_ * 2, context_.backoff.longest);
  // A link that was restarted on purpose counts as lost only once it does not come back.
  if (status_ == ConnectionStatus::kRecovering) StartGrace();
}

void PeerLink::StartGrace() {
  if (std::exchange(grace_started_, true) || context_.grace_seconds < 0) return;
  if (context_.grace_seconds == 0) return CleanUp();
  grace_ = context_.loop.After(std::chrono::seconds(context_.grace_seconds), [this] { CleanUp(); });
}

void PeerLink::CleanUp() {
  context_.log.Warning("Node disconnect event detected for node " + std::to_string(target_.node_id) + " with address " +
                       address_ + ", invalidating its memory");
  instance_.clear();
  context_.clean_up(target_.node_id);
  SetStatus(ConnectionStatus::kDisconnected);
}

void PeerLink::Restart() {
  if (std::holds_alternative<Refused>(state_)) return;
  const bool was_connected = std::holds_alternative<Connected>(state_);
  delay_ = context_.backoff.first;
  LeaveState();
  state_ = Waiting{};
  FailImports();
  if (was_connected && status_ == ConnectionStatus::kConnected) SetStatus(ConnectionStatus::kRecovering);
  Attempt();
}

void PeerLink::OnPeerShutdown() {
  if (status_ != ConnectionStatus::kConnected && status_ != ConnectionStatus::kRecovering) return;
  context_.log.Warning("Received notification of shutdown from node " + Name());
  grace_.Cancel();
  CleanUp();
}

void PeerLink::OnPeerInstance(const std::string& instance) {
  // A half-open connection to a machine that was reset is noticed here before keep-alive does.
  if (std::holds_alternative<Connected>(state_) && instance != instance_) Restart();
}

void PeerLink::OnRefused(Verdict verdict) {
  if (verdict == Verdict::kVersionMismatch) {
    // May heal when the peer is replaced by one of the right version.
    if (!std::holds_alternative<Connected>(state_)) {
      SetStatus(ConnectionStatus::kVersionMismatch);
      if (std::holds_alternative<Greeting>(state_)) AttemptFailed("version mismatch");
    }
    return;
  }
  if (std::holds_alternative<Connected>(state_) || std::holds_alternative<Refused>(state_)) return;
  context_.log.Error("Node configuration mapping mismatch with node " + Name() + ", communication disabled");
  LeaveState();
  state_ = Refused{};
  SetStatus(ConnectionStatus::kMapMismatch);
}

void PeerLink::Import(uint64_t counter, int channel, ImportDone done) {
  const auto* connected = std::get_if<Connected>(&state_);
  if (connected == nullptr) return done({{"status", Names(NvStatus::kTimeout).nv}});
  const uint64_t id = next_import_++;
  imports_[id] = std::move(done);
  connected->stream->Send({{"type", "import"}, {"id", id}, {"counter", counter}, {"channel", channel}});
}

void PeerLink::Release(uint64_t counter) {
  if (const auto* connected = std::get_if<Connected>(&state_)) {
    connected->stream->Send({{"type", "release"}, {"counter", counter}});
  }
}

void PeerLink::AnnounceShutdown() {
  if (const auto* connected = std::get_if<Connected>(&state_)) connected->stream->Send({{"type", "shutdown"}});
}

void PeerLink::FailImports() {
  for (auto& [id, done] : std::exchange(imports_, {})) done({{"status", Names(NvStatus::kTimeout).nv}});
}

void PeerLink::SetStatus(ConnectionStatus status) {
  if (std::exchange(status_, status) != status) context_.status_changed();
}

}  // namespace emu::imex
