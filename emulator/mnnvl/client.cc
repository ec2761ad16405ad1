#include "emulator/mnnvl/client.h"

#include <csignal>
#include <utility>

#include "emulator/base/net.h"

namespace emu::mnnvl {

Client::Client() {
  loop_.OnSignals({SIGTERM, SIGINT}, [this](int) {
    signalled_ = true;
    loop_.Stop(0);
  });
}

Result<void> Client::Connect(const std::string& socket_path) {
  auto socket = ConnectUnix(socket_path);
  if (!socket) return tl::unexpected(socket.error());
  stream_ = std::make_unique<JsonStream>(
      loop_, *std::move(socket), [this](const nlohmann::json& message) { OnMessage(message); },
      [this](const std::string&) {
        closed_ = true;
        loop_.Stop(0);
      });
  return {};
}

void Client::OnMessage(const nlohmann::json& message) {
  (message.contains("event") ? event_ : reply_) = message;
  loop_.Stop(0);
}

std::optional<nlohmann::json> Client::Call(nlohmann::json request) {
  request["id"] = 1;
  stream_->Send(request);
  while (!reply_ && !closed_ && !signalled_) loop_.Run();
  return std::exchange(reply_, std::nullopt);
}

std::optional<nlohmann::json> Client::WaitForEvent() {
  while (!event_ && !closed_ && !signalled_) loop_.Run();
  return std::exchange(event_, std::nullopt);
}

}  // namespace emu::mnnvl
