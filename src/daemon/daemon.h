// Ties the supervisor to the node: the plugin's files, the hosts file, nvidia-imex and the clock.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "src/base/directory_watch.h"
#include "src/base/event_loop.h"
#include "src/base/fd.h"
#include "src/daemon/child_process.h"
#include "src/daemon/imex_programs.h"
#include "src/daemon/supervisor.h"
#include "src/fabric/imex_control.h"

namespace cd::daemon {

struct DaemonOptions {
  std::filesystem::path dir;  // holds desired/ and status/
  std::string pod_ip;
  std::string pod_uid;
  std::string revision;  // of the pod's template
  std::filesystem::path hosts_file;
  std::filesystem::path run_dir;
  std::string imex;
  std::string imex_ctl;
};

class Daemon {
 public:
  // `new_instance` names one life of nvidia-imex; no two calls may give the same. `ended`: it has stopped as asked.
  Daemon(EventLoop& loop, DaemonOptions options, std::function<std::string()> new_instance, std::function<void()> ended);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Takes the lock (waiting while another daemon of this node holds it), then follows desired.json.
  void Start();
  // nvidia-imex is stopped in order; `ended` follows.
  void RequestStop();

 private:
  void TakeLock();
  void ReadDesired();
  void Handle(const Event& event);
  // Later, so that the action that caused it is done first.
  void HandleLater(Event event);
  void ArmTimer();

  void Do(const WriteHosts& action);
  void Do(const StartImex& action);
  void Do(const SignalImex& action);
  void Do(const AskImex& action);
  void Do(const PublishStatus& action);
  void Do(const Note& action);
  void Do(const Exit& action);

  void WriteStatus(const fabric::DaemonStatus& status);
  Status UpdateHosts(const WriteHosts& hosts) const;
  Status WriteImexFiles(const StartImex& action) const;

  EventLoop& loop_;
  DaemonOptions options_;
  std::function<std::string()> new_instance_;
  std::function<void()> ended_;
  fabric::ImexPaths paths_;
  Reaper reaper_;
  ImexProcess imex_;
  ImexControl control_;
  Supervisor supervisor_;
  Fd lock_;
  std::optional<DirectoryWatch> desired_watch_;  // once the lock is taken
  TimerId timer_ = 0;
  TimerId status_retry_ = 0;
  bool waits_for_lock_ = false;
  bool status_fails_ = false;  // the last write failed, and it was said
};

// For the readiness probe: success when the daemon of `dir` runs nvidia-imex and it is READY, else why not. A daemon without an
// IMEX domain is alive but not ready. `pod_ip`, if given, must be the reporting daemon's.
Status CheckReady(const std::filesystem::path& dir, const std::string& pod_ip);

}  // namespace cd::daemon
