#include "src/daemon/daemon.h"

#include <algorithm>
#include <utility>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/fabric/daemon_directory.h"

namespace cd::daemon {
namespace {

constexpr Duration kLockRetry{250};
constexpr Duration kStatusRetry{1000};
constexpr std::size_t kMaxHostsFile = 1 << 20;

}  // namespace

Daemon::Daemon(EventLoop& loop, DaemonOptions options, std::function<std::string()> new_instance, std::function<void()> ended)
    : loop_(loop),
      options_(std::move(options)),
      new_instance_(std::move(new_instance)),
      ended_(std::move(ended)),
      paths_(fabric::ImexPathsIn(options_.run_dir.string())),
      reaper_(loop_),
      imex_(loop_, reaper_,
            {[this](std::string how) { Handle(ImexExited{std::move(how)}); }, [this] { HandleLater(LinkChanged{}); }}),
      control_(loop_, reaper_, options_.imex_ctl, paths_.config),
      supervisor_(options_.pod_ip) {}

Daemon::~Daemon() {
  loop_.Cancel(timer_);
  loop_.Cancel(status_retry_);
}

void Daemon::Start() {
  loop_.Post([this] { TakeLock(); });
}

void Daemon::RequestStop() {
  LogInfo("asked to stop");
  Handle(StopRequested{});
}

// Two daemons on a node would fight over the kernel's only IMEX session and over status.json. During a forced replacement of the
// pod the old one may still be stopping.
void Daemon::TakeLock() {
  auto lock = fabric::LockDaemon(options_.dir);
  if (!lock) {
    if (!std::exchange(waits_for_lock_, true)) {
      LogWarning("waiting for the plugin's directories and their lock", {{"error", lock.error().message}});
    }
    timer_ = loop_.PostAfter(kLockRetry, [this] { TakeLock(); });
    return;
  }
  lock_ = std::move(*lock);
  // With the lock held a status left behind would count as ours until the first one of our own.
  if (const Status removed = RemoveFile(fabric::StatusPath(options_.dir)); !removed) {
    LogWarning("cannot remove the status left behind", {{"error", removed.error().message}});
  }
  const std::filesystem::path desired = fabric::DesiredPath(options_.dir);
  desired_watch_.emplace(loop_, desired.parent_path(), std::set<std::string>{desired.filename().string()},
                         [this] { ReadDesired(); });
  ReadDesired();
}

void Daemon::ReadDesired() {
  auto desired = fabric::ReadDesired(options_.dir);
  if (desired) return Handle(DesiredRead{std::move(*desired)});
  const bool missing = desired.error().code == ErrorCode::kNotFound;
  Handle(DesiredUnusable{missing ? "waiting for the kubelet plugin to write desired.json" : desired.error().message});
}

void Daemon::Handle(const Event& event) {
  for (const Action& action : supervisor_.Step(event, loop_.clock().Now())) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
  ArmTimer();
}

void Daemon::HandleLater(Event event) {
  loop_.Post([this, event = std::move(event)] { Handle(event); });
}

void Daemon::ArmTimer() {
  // Until the lock is taken the timer is TakeLock's; a stop asked for meanwhile has already ended the supervisor.
  if (!lock_) return;
  loop_.Cancel(timer_);
  timer_ = 0;
  const auto deadline = supervisor_.NextDeadline();
  if (!deadline) return;
  const SteadyTime now = loop_.clock().Now();
  timer_ = loop_.PostAfter(std::max(*deadline, now) - now, [this] { Handle(Tick{}); });
}

void Daemon::Do(const WriteHosts& action) {
  const Status written = UpdateHosts(action);
  if (written) return HandleLater(HostsWritten{});
  LogError("cannot write the hosts file", {{"error", written.error().message}});
  HandleLater(HostsNotWritten{written.error().message});
}

void Daemon::Do(const StartImex& action) {
  Status started = WriteImexFiles(action);
  if (started) started = UpdateHosts(action.hosts);
  if (started) started = imex_.Start(options_.imex, paths_.config);
  if (!started) {
    LogError("cannot start nvidia-imex", {{"error", started.error().message}});
    return HandleLater(ImexNotStarted{started.error().message});
  }
  const std::string instance = new_instance_();
  LogInfo("nvidia-imex started", {{"pid", imex_.pid()},
                                  {"instance", instance},
                                  {"domain", action.setup.domain.name},
                                  {"domainUID", action.setup.domain.uid},
                                  {"index", action.setup.domain.index}});
  HandleLater(ImexStarted{instance});
}

void Daemon::Do(const SignalImex& action) {
  LogInfo("nvidia-imex is signalled", {{"pid", imex_.pid()}, {"signal", action.signal}, {"why", action.why}});
  imex_.Signal(action.signal);
}

void Daemon::Do(const AskImex& action) {
  control_.Ask(action, [this](Event answer) { HandleLater(std::move(answer)); });
}

void Daemon::Do(const PublishStatus& action) {
  fabric::DaemonStatus status = action.status;
  status.pod_uid = options_.pod_uid;
  status.revision = options_.revision;
  const auto connected = std::count_if(status.peers.begin(), status.peers.end(),
                                       [](const fabric::PeerStatus& peer) { return peer.state == fabric::kPeerConnected; });
  LogInfo("status", {{"state", status.state},
                     {"domainUID", status.domain_uid},
                     {"index", status.index},
                     {"peers", status.peers.size()},
                     {"connected", connected},
                     {"error", status.error}});
  WriteStatus(status);
}

// A disk may be full for a while, and a directory that is gone stays so for as long as this container has it mounted.
void Daemon::WriteStatus(const fabric::DaemonStatus& status) {
  // Without the lock the file is another daemon's.
  if (!lock_) return;
  loop_.Cancel(status_retry_);
  if (const Status written = fabric::WriteDaemonStatus(options_.dir, status); !written) {
    if (!std::exchange(status_fails_, true)) {
      LogError("cannot write status.json, trying on; if its directory was deleted this pod must be too",
               {{"error", written.error().message}});
    }
    status_retry_ = loop_.PostAfter(kStatusRetry, [this] { WriteStatus(supervisor_.status()); });
  } else if (std::exchange(status_fails_, false)) {
    LogInfo("status.json is written again");
  }
}

void Daemon::Do(const Note& action) {
  LogInfo(action.text);
}

void Daemon::Do(const Exit&) {
  loop_.Post(ended_);
}

Status Daemon::UpdateHosts(const WriteHosts& hosts) const {
  auto current = ReadKernelFile(options_.hosts_file, kMaxHostsFile);
  if (!current && current.error().code != ErrorCode::kNotFound) return Fail(current.error());
  // In place: in a pod the file is a bind mount, a new file would not be seen.
  return OverwriteFile(options_.hosts_file, fabric::RenderHosts(current ? *current : "", hosts.domain_name, hosts.addresses));
}

Status Daemon::WriteImexFiles(const StartImex& action) const {
  if (auto made = MakeDirectories(options_.run_dir); !made) return made;
  if (auto nodes = ReplaceFile(paths_.nodes, fabric::RenderNodes(action.setup.domain), 0644); !nodes) return nodes;
  const auto config = fabric::RenderConfig(action.setup.config, action.setup.tls, options_.pod_ip, paths_);
  return ReplaceFile(paths_.config, config, 0644);
}

Status CheckReady(const std::filesystem::path& dir, const std::string& pod_ip) {
  if (!fabric::DaemonAlive(dir)) return Fail(ErrorCode::kUnavailable, "no daemon runs on " + dir.string());
  const auto status = fabric::ReadDaemonStatus(dir);
  if (!status) return Fail(status.error());
  if (!pod_ip.empty() && status->address != pod_ip) {
    return Fail(ErrorCode::kUnavailable, "the daemon reporting is the one at " + status->address + ", not at " + pod_ip);
  }
  if (status->state == fabric::kStateReady) return {};
  std::string why = "nvidia-imex is " + status->state;
  if (status->state == fabric::kStateStopped && status->error.empty()) why = "no IMEX domain is assigned to this node yet";
  if (!status->error.empty()) why += ": " + status->error;
  return Fail(ErrorCode::kFailedPrecondition, std::move(why));
}

}  // namespace cd::daemon
