// A process' connection to the kernel model of its node: one request at a time, then events.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "emulator/base/event_loop.h"
#include "emulator/base/json_stream.h"
#include "emulator/base/result.h"

namespace emu::mnnvl {

class Client {
 public:
  // SIGTERM and SIGINT end any wait: the program may be process 1 of a container, which has no default action for them.
  Client();

  Result<void> Connect(const std::string& socket_path);

  // The reply; empty when a signal or the end of the connection came first (see closed()).
  std::optional<nlohmann::json> Call(nlohmann::json request);

  // The next event; empty as with Call.
  std::optional<nlohmann::json> WaitForEvent();

  // The kernel model went away (its node was stopped), as opposed to a signal.
  bool closed() const { return closed_; }

 private:
  void OnMessage(const nlohmann::json& message);

  EventLoop loop_;
  std::unique_ptr<JsonStream> stream_;
  std::optional<nlohmann::json> reply_;
  std::optional<nlohmann::json> event_;
  bool closed_ = false;
  bool signalled_ = false;
};

}  // namespace emu::mnnvl
