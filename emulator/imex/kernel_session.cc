#include "emulator/imex/kernel_session.h"

#include <nlohmann/json.hpp>

#include "emulator/base/net.h"

namespace emu::imex {

using nlohmann::json;

KernelSession::KernelSession(EventLoop& loop, const std::string& socket_path, int node_id, const std::string& version,
                             Events events, Reply opened)
    : loop_(loop), events_(std::move(events)) {
  auto socket = ConnectUnix(socket_path);
  if (!socket) {
    failed_ = loop_.After(Milliseconds(0), [this, error = socket.error()] { events_.lost(error.message); });
    return;
  }
  stream_ = std::make_unique<JsonStream>(
      loop_, *std::move(socket), [this](const json& message) { OnMessage(message); },
      [this](const std::string& why) { events_.lost(why); });
  Call({{"op", "openSession"}, {"nodeId", node_id}, {"version", version}}, std::move(opened));
}

void KernelSession::Call(json request, Reply done) {
  if (!stream_) return;
  const uint64_t id = next_call_++;
  calls_[id] = std::move(done);
  request["id"] = id;
  stream_->Send(request);
}

void KernelSession::OnMessage(const json& message) {
  const auto event = message.value("event", std::string());
  if (event == "import") {
    return events_.import(message.at("nodeId").get<int>(), message.at("counter").get<uint64_t>(),
                          message.at("channel").get<int>(), message.at("token").get<uint64_t>());
  }
  if (event == "release") return events_.release(message.at("nodeId").get<int>(), message.at("counter").get<uint64_t>());
  if (!event.empty()) return;
  const auto call = calls_.extract(message.at("id").get<uint64_t>());
  if (!call.empty() && call.mapped()) call.mapped()(message);
}

void KernelSession::FinishImport(uint64_t token, const json& reply) {
  json request = {{"op", "finishImport"}, {"token", token}, {"result", reply.at("status")}};
  if (reply.contains("memory")) request["memory"] = reply["memory"];
  Call(request, nullptr);
}

void KernelSession::Duplicate(uint64_t counter, int channel, int importer, Reply done) {
  Call({{"op", "duplicate"}, {"counter", counter}, {"channel", channel}, {"importer", importer}}, std::move(done));
}

void KernelSession::ReleaseDuplicate(uint64_t counter, int importer) {
  Call({{"op", "releaseDuplicate"}, {"counter", counter}, {"importer", importer}}, nullptr);
}

void KernelSession::DropNode(int node_id) {
  Call({{"op", "dropNode"}, {"nodeId", node_id}}, nullptr);
}

void KernelSession::Close(std::function<void()> done) {
  Call({{"op", "closeSession"}}, [done = std::move(done)](const json&) { done(); });
}

}  // namespace emu::imex
