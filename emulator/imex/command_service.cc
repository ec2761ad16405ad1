#include "emulator/imex/command_service.h"

#include <sys/epoll.h>

#include <nlohmann/json.hpp>

#include "emulator/base/net.h"

namespace emu::imex {

using nlohmann::json;

CommandService::~CommandService() {
  for (const auto& listener : listeners_) loop_.Forget(listener->get());
}

void CommandService::Serve(UniqueFd listener) {
  listeners_.push_back(std::make_unique<UniqueFd>(std::move(listener)));
  const UniqueFd& kept = *listeners_.back();
  loop_.Watch(kept.get(), EPOLLIN, [this, &kept](uint32_t) { AcceptClients(kept); });
}

void CommandService::AcceptClients(const UniqueFd& listener) {
  for (UniqueFd socket = Accept(listener); socket.valid(); socket = Accept(listener)) {
    const uint64_t id = next_client_++;
    clients_[id] = std::make_unique<JsonStream>(
        loop_, std::move(socket), [this, id](const json& request) { OnRequest(id, request); },
        [this, id](const std::string&) {
          subscribers_.erase(id);
          clients_.erase(id);
        });
  }
}

json CommandService::StateOnly() const {
  return {{"state", describe_().at("state")}};
}

void CommandService::OnRequest(uint64_t id, const json& request) {
  const auto operation = request.at("op").get<std::string>();
  if (operation == "subscribe") subscribers_.insert(id);
  clients_.at(id)->Send(operation == "node" ? describe_() : StateOnly());
}

void CommandService::StateChanged() {
  for (const uint64_t id : subscribers_) clients_.at(id)->Send(StateOnly());
}

}  // namespace emu::imex
