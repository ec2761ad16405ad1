// The kernel model behind a unix socket: who connects is a process of some container of the node.
//
// Requests and replies are JSON lines. A request: {"id": any, "op": name, …}; its reply: {"id": the same, "status":
// NV_… name, …}. Unasked messages carry "event" instead of "id". Operations:
//   channels {}                             -> channels: what the caller's container can use
//   subscribe {channel}
//   export {gpu, size, text}                -> handle
//   import {handle, gpu}                    -> memory {cluster, clique, size, text}
//   openSession {nodeId, version}           -> driverVersion     (nvidia-imex, as all that follow)
//   closeSession {} · duplicate {counter, channel, importer} -> memory · releaseDuplicate {counter, importer}
//   dropNode {nodeId} · finishImport {token, result: status name, memory}
// Events: invalidated {handle, reason} to importers; import {token, nodeId, counter, channel} and release {nodeId,
// counter} to nvidia-imex.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "emulator/base/event_loop.h"
#include "emulator/base/json_stream.h"
#include "emulator/base/result.h"
#include "emulator/kernel/model.h"
#include "emulator/kernel/possession.h"

namespace emu::kernel {

struct Options {
  std::string directory;
  unsigned major = 0;       // of the channel devices
  unsigned caps_major = 0;  // of the capability device
};

class Server {
 public:
  Server(EventLoop& loop, Options options, int channel_count);

  // Proc files, self-test of the probe, socket.
  Result<void> Start();

 private:
  struct Client {
    Caller caller;
    std::unique_ptr<JsonStream> stream;
    std::map<uint64_t, std::string> pending;  // token of a remote import -> the request's id, as JSON text
  };
  using Reply = nlohmann::json;
  using Operation = Reply (Server::*)(ClientId, const nlohmann::json&);

  void AcceptClients();
  void OnRequest(ClientId id, const nlohmann::json& request);
  void OnClosed(ClientId id);
  void Deliver(const Notices& notices);
  void DeliverOne(const Notice& notice);
  void PublishRecoveryAction();
  Result<Clique> CliqueOf(const nlohmann::json& request) const;

  Reply Channels(ClientId id, const nlohmann::json& request);
  Reply Subscribe(ClientId id, const nlohmann::json& request);
  Reply Export(ClientId id, const nlohmann::json& request);
  Reply Import(ClientId id, const nlohmann::json& request);
  Reply OpenSession(ClientId id, const nlohmann::json& request);
  Reply CloseSession(ClientId id, const nlohmann::json& request);
  Reply Duplicate(ClientId id, const nlohmann::json& request);
  Reply ReleaseDuplicate(ClientId id, const nlohmann::json& request);
  Reply DropNode(ClientId id, const nlohmann::json& request);
  Reply FinishImport(ClientId id, const nlohmann::json& request);

  EventLoop& loop_;
  const Options options_;
  Model model_;
  CgroupProbe probe_;
  UniqueFd listener_;
  std::map<ClientId, Client> clients_;
  ClientId next_client_ = 1;
};

}  // namespace emu::kernel
