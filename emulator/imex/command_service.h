// What nvidia-imex-ctl talks to. JSON lines: {"op":"status"} -> {state}; {"op":"node"} -> {state, version, nodeId,
// connections: {"<id>": word}}; {"op":"subscribe"} -> {state} now and at every change.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "emulator/base/event_loop.h"
#include "emulator/base/json_stream.h"
#include "emulator/base/result.h"

namespace emu::imex {

class CommandService {
 public:
  // `describe` gives the answer to {"op":"node"}.
  CommandService(EventLoop& loop, std::function<nlohmann::json()> describe) : loop_(loop), describe_(std::move(describe)) {}
  CommandService(const CommandService&) = delete;
  CommandService& operator=(const CommandService&) = delete;
  ~CommandService();

  void Serve(UniqueFd listener);

  // Tells the subscribers.
  void StateChanged();

 private:
  void AcceptClients(const UniqueFd& listener);
  void OnRequest(uint64_t id, const nlohmann::json& request);
  nlohmann::json StateOnly() const;

  EventLoop& loop_;
  const std::function<nlohmann::json()> describe_;
  std::vector<std::unique_ptr<UniqueFd>> listeners_;
  std::map<uint64_t, std::unique_ptr<JsonStream>> clients_;
  std::set<uint64_t> subscribers_;
  uint64_t next_client_ = 1;
};

}  // namespace emu::imex
