// Asking daemons over their command service.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "emulator/base/dial.h"
#include "emulator/base/event_loop.h"
#include "emulator/base/json_stream.h"
#include "emulator/base/result.h"
#include "emulator/imex/config.h"
#include "emulator/imexctl/arguments.h"
#include "emulator/imexctl/domain.h"

namespace emu::imexctl {

// One request to one daemon; `answer` is called for every reply, `failed` at most once.
class Query {
 public:
  using Answer = std::function<void(const nlohmann::json&)>;
  using Failed = std::function<void(const std::string& why)>;

  Query(EventLoop& loop, const SocketAddress& address, const std::string& operation, Answer answer, Failed failed);
  Query(EventLoop& loop, UniqueFd connected, const std::string& operation, Answer answer, Failed failed);

 private:
  void Ask(UniqueFd socket);

  EventLoop& loop_;
  const std::string operation_;
  const Answer answer_;
  const Failed failed_;
  std::unique_ptr<Dial> dial_;
  std::unique_ptr<JsonStream> stream_;
};

// The daemon that the arguments mean. The error text is for a person.
Result<std::unique_ptr<Query>> QueryTarget(EventLoop& loop, const Arguments& arguments, const std::optional<imex::Config>& config,
                                           const std::string& operation, Query::Answer answer, Query::Failed failed);

// Asks all members at once, each at its own address and the local command port.
Domain AskDomain(const imex::Config& config, const std::string& node_file_text);

}  // namespace emu::imexctl
