// The controller: informers feed a World, one worker turns it into writes.
#pragma once

#include <memory>
#include <string>

#include "src/base/executor.h"
#include "src/controller/settings.h"
#include "src/kube/client.h"

namespace cd::controller {

struct ControllerOptions {
  Duration gone_after{15 * 60 * 1'000};  // a Node absent for that long took its processes with it
  std::uint64_t seed = 0;                // spreads the informers' reconnects
  std::string daemon_revision = {};      // of the IMEX daemons that should run; empty: none is ever replaced
  std::string ns = {};                   // where their pods are
  ClusterSettings cluster = {};
  std::string instance = {};  // who tells events, e.g. the pod's name; empty: the controller's own name
};

class Controller {
 public:
  // `client`'s executor is `loop`. Both outlive the controller.
  Controller(kube::ApiClient& client, Executor& loop, ControllerOptions options);
  // Loop's thread (or while it does not run), after RunWorker has returned.
  ~Controller();

  // Loop's thread, once.
  void StartInformers();
  // Any thread: every informer has seen a full list.
  bool Synced() const;

  // A thread of its own: waits for the caches, then works until Stop. Call it only while leading.
  void RunWorker();
  // RunWorker for a caller that owns time: works on one key that is due. False: caches are not synced, or nothing is due.
  bool WorkOnce();
  // Any thread. The request under way is finished, nothing new begins.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cd::controller
