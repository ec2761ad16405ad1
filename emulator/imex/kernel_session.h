// The node's IMEX session with its kernel driver. One at a time exists on a node.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "emulator/base/event_loop.h"
#include "emulator/base/json_stream.h"
#include "emulator/node/nv_status.h"

namespace emu::imex {

class KernelSession {
 public:
  using Reply = std::function<void(const nlohmann::json& reply)>;
  struct Events {
    std::function<void(int exporter, uint64_t counter, int channel, uint64_t token)> import;  // a local client wants memory
    std::function<void(int exporter, uint64_t counter)> release;                              // it no longer does
    std::function<void(const std::string& why)> lost;
  };

  // `opened` gets {status, driverVersion}; a driver that is not there counts as lost.
  KernelSession(EventLoop& loop, const std::string& socket_path, int node_id, const std::string& version, Events events,
                Reply opened);

  void FinishImport(uint64_t token, const nlohmann::json& reply);
  // `done` gets {status, memory}.
  void Duplicate(uint64_t counter, int channel, int importer, Reply done);
  void ReleaseDuplicate(uint64_t counter, int importer);
  void DropNode(int node_id);
  void Close(std::function<void()> done);

 private:
  void Call(nlohmann::json request, Reply done);
  void OnMessage(const nlohmann::json& message);

  EventLoop& loop_;
  const Events events_;
  std::unique_ptr<JsonStream> stream_;
  EventLoop::Timer failed_;
  std::map<uint64_t, Reply> calls_;
  uint64_t next_call_ = 1;
};

}  // namespace emu::imex
