// The plugin's face to the kubelet: registration, DRA v1 and device health v1alpha1, over unix sockets.
//
// What the kubelet does (Kubernetes 1.36): it calls Prepare for different pods concurrently and twice at once for a claim two
// pods share; a call is cancelled after 45 s, when the kubelet stops or when it drops the plugin, but not when the pod is
// deleted. A failed Prepare is repeated after 60 to 90 s only. Prepare and Unprepare of one claim may reach different plugin
// processes.
//
// gRPC and protobuf stay behind this header.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/api/meta.h"
#include "src/base/executor.h"
#include "src/plugin/socket_names.h"

namespace cd::plugin {

// One device of one claim, as the kubelet is told.
struct PreparedDevice {
  std::string request;  // as allocated: `a`, or `a/sub` of which the kubelet hears `a`
  std::string pool;
  std::string device;
  std::optional<std::string> share_id;
  std::vector<std::string> cdi_ids;
  bool operator==(const PreparedDevice&) const = default;
};

using PrepareResult = Result<std::vector<PreparedDevice>>;
using CallId = std::uint64_t;

// Served by the driver, always on the executor. Every `done` is called exactly once, on the executor.
class DraHandler {
 public:
  virtual ~DraHandler() = default;
  virtual void Prepare(CallId call, const api::ObjectRef& claim, std::function<void(PrepareResult)> done) = 0;
  // The kubelet no longer waits for `call`: answer what is still open and commit nothing for it.
  virtual void Cancelled(CallId call) = 0;
  // Idempotent; an unknown claim is success.
  virtual void Unprepare(const api::ObjectRef& claim, std::function<void(Status)> done) = 0;
};

struct DeviceHealth {
  std::string pool;
  std::string device;
  bool healthy = true;
  std::string message;  // at most 1024 bytes
  bool operator==(const DeviceHealth&) const = default;
};

struct DraServerOptions {
  std::string driver;
  SocketNames sockets;
  // Longest wait in Stop for calls in flight; more than the longest Prepare.
  Duration drain{15'000};
  // Runs on the executor each time the kubelet took the plugin in; pods that come earlier wait a minute for their next try.
  std::function<void()> on_registered = {};
};

class DraServer {
 public:
  // DRA listens first, then registration, so that the kubelet never learns an address nobody serves. `executor` must run for as
  // long as the server lives, and `handler` is called until Stop returned.
  static Result<std::unique_ptr<DraServer>> Start(DraServerOptions options, Executor& executor, DraHandler& handler);
  ~DraServer();  // Stop()
  DraServer(const DraServer&) = delete;
  DraServer& operator=(const DraServer&) = delete;

  // Ends the health streams (an open one would block the rest), lets calls in flight finish, and unregisters last: the other way
  // round the kubelet cancels what is in flight and the pod waits a minute. Blocks: never on the executor. Idempotent.
  void Stop();

  // Any thread. The complete list, sent at once when it changed and every 10 s: the kubelet forgets health that is not repeated,
  // and drops all of it when the stream of one of two instances ends.
  void SetHealth(std::vector<DeviceHealth> devices);

  // The kubelet's last verdict: registered, refused (and why), or not asked yet.
  bool Registered() const;

 private:
  class Impl;
  explicit DraServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cd::plugin
