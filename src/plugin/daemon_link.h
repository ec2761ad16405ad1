// The plugin's side of the two files it shares with the node's IMEX daemon: reads its status, and tells it what to run. Loop's
// thread only.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "src/base/directory_watch.h"
#include "src/base/event_loop.h"
#include "src/fabric/daemon_files.h"
#include "src/plugin/checkpoint.h"
#include "src/plugin/node_view.h"

namespace cd::plugin {

// What the daemon is to run. Pure. `current` is what it was told last: while a channel of that domain is held here it does not
// change to another domain or index; a new UID under the same name is a rebuilt IMEXDomain, which restarts nothing. Without an
// assignment it stops, held channel or not (a node that holds what it must not gets none), unless the domain counts the node in
// and grants all it holds: then somebody has removed the assignment, and the controller is about to give it again. While nothing
// is known of the domain, a channel of it that is held keeps the daemon running.
fabric::Desired DecideDesired(const NodeView& view, const Checkpoint& checkpoint, const std::string& boot_id,
                              const std::optional<fabric::Desired>& current);

// What is reported of the daemon: its place is that of the nvidia-imex that runs, else the one it is told to run in. It may be
// started there at any moment, so the place is not free. Pure.
api::NodeDaemon WithPlace(api::NodeDaemon status, const std::optional<fabric::Desired>& told);

// The node's IMEX daemon as an instance of the plugin drives it.
class DaemonOrders {
 public:
  virtual ~DaemonOrders() = default;
  // Begins to tell the daemon what to run; only one instance may. What the boot before was told is taken back at once.
  virtual void BecomePublisher() = 0;
  // The IMEXDomain the daemon is told to run in; empty: none. Of the instance before this one from BecomePublisher on.
  virtual std::string domain_name() const = 0;
  // Tells the daemon what follows from these (see DecideDesired), at once or as soon as the disk takes it.
  virtual void Reconcile(const NodeView& view, const Checkpoint& checkpoint) = 0;
};

class DaemonLink final : public DaemonOrders {
 public:
  // `dir` holds desired/ and status/. `on_status` runs for every change of the daemon's state, see WithPlace.
  DaemonLink(EventLoop& loop, std::filesystem::path dir, std::string boot_id,
             std::function<void(const api::NodeDaemon&)> on_status);

  ~DaemonLink() override;
  DaemonLink(const DaemonLink&) = delete;
  DaemonLink& operator=(const DaemonLink&) = delete;

  // Begins to read the status.
  void Start();

  void BecomePublisher() override;
  std::string domain_name() const override { return written_ && written_->run && written_->domain ? written_->domain->name : ""; }
  void Reconcile(const NodeView& view, const Checkpoint& checkpoint) override;

 private:
  void ReadStatus();
  void Write();
  void Tell();

  EventLoop& loop_;
  const std::filesystem::path dir_;
  const std::string boot_id_;
  std::function<void(const api::NodeDaemon&)> on_status_;
  std::optional<DirectoryWatch> watch_;
  api::NodeDaemon status_;  // as its file says
  api::NodeDaemon told_;    // to on_status
  bool publisher_ = false;
  std::optional<fabric::Desired> wanted_;   // by the latest Reconcile
  std::optional<fabric::Desired> written_;  // stands on disk
  TimerId retry_ = 0;
  bool failing_ = false;  // the last write failed, and it was said
};

}  // namespace cd::plugin
