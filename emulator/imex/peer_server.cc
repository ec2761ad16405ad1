#include "emulator/imex/peer_server.h"

#include <sys/epoll.h>

#include <nlohmann/json.hpp>

#include "emulator/base/net.h"

namespace emu::imex {

using nlohmann::json;

PeerServer::PeerServer(EventLoop& loop, UniqueFd listener, Identity own, Events events)
    : loop_(loop), listener_(std::move(listener)), own_(std::move(own)), events_(std::move(events)) {
  loop_.Watch(listener_.get(), EPOLLIN, [this](uint32_t) { AcceptPeers(); });
}

PeerServer::~PeerServer() {
  loop_.Forget(listener_.get());
}

void PeerServer::AcceptPeers() {
  for (UniqueFd socket = Accept(listener_); socket.valid(); socket = Accept(listener_)) {
    EnableKeepAlive(socket);
    const uint64_t id = next_peer_++;
    peers_[id].stream = std::make_unique<JsonStream>(
        loop_, std::move(socket), [this, id](const json& message) { OnMessage(id, message); },
        [this, id](const std::string&) { peers_.erase(id); });
  }
}

void PeerServer::OnMessage(uint64_t id, const json& message) {
  Peer& peer = peers_.at(id);
  const auto type = message.at("type").get<std::string>();
  if (type == "hello") return OnHello(peer, message);
  if (!peer.accepted) return;
  if (type == "import") return OnImport(id, message);
  if (type == "release") events_.release(peer.identity.node_id, message.at("counter").get<uint64_t>());
  if (type == "shutdown") events_.shutdown(peer.identity);
}

void PeerServer::OnHello(Peer& peer, const json& message) {
  peer.identity = IdentityFromJson(message);
  const Verdict verdict = Judge(own_, peer.identity);
  peer.accepted = verdict == Verdict::kAccepted;
  json answer = ToJson(own_);
  answer["type"] = "hello";
  peer.stream->Send(answer);
  events_.greeted(peer.identity, verdict);
}

void PeerServer::OnImport(uint64_t id, const json& message) {
  const auto request = message.at("id").get<uint64_t>();
  const auto reply = [this, id, request](json result) {
    const auto found = peers_.find(id);
    if (found == peers_.end()) return;
    result["type"] = "importReply";
    result["id"] = request;
    found->second.stream->Send(result);
  };
  events_.import(peers_.at(id).identity.node_id, message.at("counter").get<uint64_t>(), message.at("channel").get<int>(), reply);
}

void PeerServer::AnnounceShutdown() {
  for (auto& [id, peer] : peers_) {
    if (peer.accepted && peer.identity.node_id != own_.node_id) peer.stream->Send({{"type", "shutdown"}});
  }
}

}  // namespace emu::imex
