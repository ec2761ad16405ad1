#include "tests/simulation/plugin_process.h"

#include <algorithm>
#include <utility>

#include "src/plugin/daemon_link.h"
#include "src/plugin/linger_watch.h"
#include "src/plugin/node_driver.h"
#include "src/plugin/node_reporter.h"
#include "src/plugin/node_state.h"
#include "src/plugin/node_watch.h"
#include "src/plugin/own_node.h"
#include "src/plugin/sweeper.h"

namespace cd::simulation {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr Duration kSeekLock{250};

plugin::ClaimFiles::Paths PathsOf(const Context& context) {
  return {"/cdi", "/plugin", context.proc_devices, "/caps", "/driver", "/driver", context.driver_parameters};
}

// kSkipAnnounce.
class ReportAtOnce final : public plugin::ChannelReport {
 public:
  void EnsureReported(const api::NodeChannel&, std::function<void(Status)> done) override { done({}); }
  void PrepareEnded(const std::string&, bool) override {}
};

// kIgnoreMove.
class ReportAnyway final : public plugin::ChannelReport {
 public:
  explicit ReportAnyway(plugin::ChannelReport& report) : report_(report) {}
  void EnsureReported(const api::NodeChannel& channel, std::function<void(Status)> done) override {
    report_.EnsureReported(channel, [done = std::move(done)](const Status&) { done({}); });
  }
  void PrepareEnded(const std::string& claim_uid, bool lost) override { report_.PrepareEnded(claim_uid, lost); }

 private:
  plugin::ChannelReport& report_;
};

}  // namespace

struct PluginProcess::Core {
  Core(PluginProcess& process, Context& context, PluginHost& host)
      : executor(process.executor_),
        context(context),
        host(host),
        boot_id(host.BootId()),
        files(PathsOf(context), process.disk_),
        state(executor, "/plugin", boot_id, files, process.disk_),
        reporter(executor, process.client_, state, host.Name(), boot_id),
        driver(executor, process.client_, state, files, ReportFor(context), {host.Name(), "driver", process.name_}),
        watch(executor, process.client_, host.Name(), context.dice.Next(), [this] { OnView(); }),
        own_node(executor, process.client_, host.Name(), context.dice.Next()),
        linger(executor, state, files, process),
        sweeper(executor, process.client_, state, files, host.Name()),
        publisher_lock("/plugin/publisher.lock", process.disk_) {}

  plugin::ChannelReport& ReportFor(const Context& of) {
    if (of.Has(Bug::kSkipAnnounce)) return at_once;
    return of.Has(Bug::kIgnoreMove) ? static_cast<plugin::ChannelReport&>(anyway) : reporter;
  }

  void Start() {
    state.Transact(
        [this](plugin::Checkpoint& checkpoint) -> Status {
          for (const auto& [uid, entry] : checkpoint.claims) {
            if (entry.phase == plugin::ClaimPhase::kCompleted) (void)files.Write(entry);
          }
          files.RemoveStrays(checkpoint);
          return {};
        },
        [](const Status&) {});
    state.OnChange([this] { OnCheckpoint(); });
    reporter.OnRead([this] { TellDaemon(); });
    ReadDaemon();
    watch.Start();
    OnFabric(host.Fabric());
    SeekPublisherLock();
  }

  void SeekPublisherLock() {
    const auto held = publisher_lock.TryLock();
    if (held && *held) return BecomePublisher();
    executor.PostAfter(kSeekLock, [this] { SeekPublisherLock(); });
  }

  void BecomePublisher() {
    if (context.trace.on()) context.trace.Add(host.Name(), "an instance publishes");
    publisher = true;
    state.Refresh();
    if (auto present = host.Desired(); present && present->boot_id == boot_id) written = std::move(*present);
    ReadDaemon();
    if (written && written->run && written->domain) watch.FollowUnassigned(written->domain->name);
    linger.Start();
    sweeper.Start();
    reporter.BecomePublisher([this](plugin::OnOwner done) { own_node.Read(std::move(done)); });
    OnView();
    SetLabels();
  }

  void OnRegistered() {
    if (std::exchange(registered, true)) {
      if (publisher) own_node.Check();
      return;
    }
    reporter.SetRegistered(FormatMicroTime(context.clock.WallNow()));
  }

  void OnFabric(const fabric::FabricView& view) {
    fabric = view;
    if (context.Has(Bug::kSickIsNone) && view.state != api::FabricState::kReady) {
      fabric.state = api::FabricState::kNone;
      fabric.clique_ids.clear();
    }
    watch.SetFabric(fabric);
    reporter.SetFabric(fabric);
    SetLabels();
  }

  void ReadDaemon() {
    const api::NodeDaemon status = plugin::WithPlace(host.DaemonStatus(), written);
    if (status == daemon) return;
    daemon = status;
    reporter.SetDaemon(status);
    watch.SetDaemon(status);
  }

  void OnView() {
    if (!watch.Synced()) return;
    driver.SetView(watch.view());
    reporter.SetObserved(watch.view()->imex_node);
    TellDaemon();
  }

  void OnCheckpoint() {
    reporter.CheckpointChanged();
    linger.CheckpointChanged();
    driver.CheckpointChanged();
    TellDaemon();
    const bool claimed = plugin::HasDaemonClaim(state.last());
    if (std::exchange(daemon_claimed, claimed) && !claimed && publisher) own_node.Check();
    SetLabels();
  }

  // As DaemonLink does.
  void TellDaemon() {
    // Before the assignment was read nothing is known of it, and a daemon may be running.
    if (!publisher || !watch.Synced() || !reporter.IsCurrent(watch.view()->imex_node)) return;
    const plugin::Checkpoint none;
    const plugin::Checkpoint& checkpoint = context.Has(Bug::kSwitchUnderChannels) ? none : state.last();
    fabric::Desired desired = plugin::DecideDesired(*watch.view(), checkpoint, boot_id, written);
    if (written == desired) return;
    host.SetDesired(desired);
    written = std::move(desired);
    ReadDaemon();
  }

  void SetLabels() {
    if (!publisher) return;
    const bool usable = fabric.state == api::FabricState::kReady || fabric.state == api::FabricState::kDegraded;
    const std::string clique = usable && fabric.clique_ids.size() == 1 ? fabric.clique_ids.front() : "";
    own_node.SetLabels(clique, fabric.clique_ids.size() == 1 || !plugin::HeldChannels(state.last()).empty());
  }

  SimulatedExecutor& executor;
  Context& context;
  PluginHost& host;
  const std::string boot_id;
  ReportAtOnce at_once;
  plugin::ClaimFiles files;
  plugin::NodeState state;
  plugin::NodeReporter reporter;
  ReportAnyway anyway{reporter};
  plugin::NodeDriver driver;
  plugin::NodeWatch watch;
  plugin::OwnNode own_node;
  bool daemon_claimed = false;
  plugin::LingerWatch linger;
  plugin::Sweeper sweeper;
  plugin::FileLock publisher_lock;
  bool publisher = false;
  bool registered = false;
  fabric::FabricView fabric;
  api::NodeDaemon daemon;
  std::optional<fabric::Desired> written;
};

PluginProcess::PluginProcess(Context& context, PluginHost& host)
    : context_(context),
      host_(host),
      name_(host.Name() + "/plugin-" + std::to_string(context.next_instance++)),
      executor_(context.clock),
      disk_(host.DiskOf()),
      client_(context.network, name_) {
  client_.run = [this](const std::function<void()>& task) { Run(task); };
  client_.busy = [this] { return fiber_.busy() || dead_; };
  client_.speed = context.dice.PerMille(200) ? 64 : 1024;
  disk_.before_call = [this] { BeforeDiskCall(); };
  InstallBugs();
  if (context.Has(Bug::kForgetCheckpoint)) {
    std::erase_if(host.DiskOf()->files, [](const auto& file) { return file.first.starts_with("/plugin/"); });
  }
  executor_.Post([this] {
    core_ = std::make_unique<Core>(*this, context_, host_);
    core_->Start();
    registered_ = true;
    core_->OnRegistered();
  });
}

PluginProcess::~PluginProcess() {
  fiber_.Kill();
  disk_.before_call = nullptr;
  core_.reset();
}

void PluginProcess::BeforeDiskCall() {
  if (Fiber::Current() != &fiber_) return;
  if (crash_in_ > 0 && --crash_in_ == 0) throw Killed{};
  if (context_.dice.PerMille(context_.slow_disk)) Fiber::Yield();
}

void PluginProcess::Run(const std::function<void()>& task) {
  fiber_.Run(task);
  if (!fiber_.busy() && fiber_.killed()) dead_ = true;
}

bool PluginProcess::HasWork() const {
  if (dead_) return false;
  return fiber_.busy() || executor_.HasPosted() || executor_.HasDue();
}

void PluginProcess::Step() {
  if (fiber_.busy()) {
    fiber_.Resume();
    if (!fiber_.busy() && fiber_.killed()) dead_ = true;
    return;
  }
  const bool due = executor_.HasDue() && (!executor_.HasPosted() || context_.dice.PerMille(500));
  Run(due ? executor_.TakeDue() : executor_.TakePosted());
}

bool PluginProcess::publisher() const {
  return core_ != nullptr && core_->publisher;
}

void PluginProcess::Prepare(plugin::CallId call, const api::ObjectRef& claim, std::function<void(plugin::PrepareResult)> done) {
  executor_.Post([this, call, claim, done = std::move(done)] { core_->driver.Prepare(call, claim, done); });
}
void PluginProcess::Unprepare(const api::ObjectRef& claim, std::function<void(Status)> done) {
  executor_.Post([this, claim, done = std::move(done)] { core_->driver.Unprepare(claim, done); });
}
void PluginProcess::Cancel(plugin::CallId call) {
  executor_.Post([this, call] { core_->driver.Cancelled(call); });
}
void PluginProcess::FabricChanged() {
  executor_.Post([this] { core_->OnFabric(host_.Fabric()); });
}
void PluginProcess::DaemonChanged() {
  executor_.Post([this] { core_->ReadDaemon(); });
}
void PluginProcess::CheckpointChanged() {
  executor_.Post([this] { core_->state.Refresh(); });
}
void PluginProcess::ProcessEnded(pid_t pid) {
  const auto it = followed_.find(pid);
  if (it == followed_.end()) return;
  executor_.Post([this, pid] {
    const auto node = followed_.extract(pid);
    if (!node.empty()) node.mapped()();
  });
}

Result<std::map<std::string, std::vector<pid_t>>> PluginProcess::Holders(const std::set<std::string>& claims) {
  std::map<std::string, std::vector<pid_t>> holders;
  if (context_.Has(Bug::kForgetLingering)) return holders;
  for (const auto& [pid, uid] : host_.ProcessesWithMarker()) {
    if (claims.contains(uid)) holders[uid].push_back(pid);
  }
  return holders;
}

plugin::Processes::Following PluginProcess::Follow(pid_t pid, std::function<void()> ended) {
  const auto alive = host_.ProcessesWithMarker();
  if (std::none_of(alive.begin(), alive.end(), [&](const auto& process) { return process.first == pid; }))
    return Following::kEnded;
  followed_[pid] = std::move(ended);
  return Following::kFollowed;
}

void PluginProcess::InstallBugs() {
  disk_.ignore_locks = context_.Has(Bug::kIgnoreLock);
  if (context_.Has(Bug::kResurrect) || context_.Has(Bug::kForgetWithdrawal)) {
    disk_.corrupt_write = [this](const std::string& path, std::string& content) {
      if (!path.ends_with("checkpoint.json")) return;
      json checkpoint = json::parse(content);
      if (context_.Has(Bug::kResurrect)) checkpoint["unprepared"] = json::object();
      if (context_.Has(Bug::kForgetWithdrawal)) checkpoint["withdrawing"] = json::array();
      content = checkpoint.dump();
    };
  }
  if (context_.Has(Bug::kStaleCheck)) {
    client_.corrupt_answer = [this](const kube::ApiRequest& request) -> std::optional<Result<json>> {
      if (request.verb != kube::Verb::kGet || request.type.plural != api::kImexDomains.plural) return std::nullopt;
      const ObjectPtr older = context_.server.Older(api::kImexDomains, request.key, context_.dice.Below(6));
      return older == nullptr ? std::nullopt : std::optional<Result<json>>(*older);
    };
  }
  if (context_.Has(Bug::kReportLess)) {
    client_.corrupt_request = [](kube::ApiRequest& request) {
      if (request.type.plural != api::kImexNodes.plural || request.subresource != "status") return;
      json body = json::parse(request.body);
      json& channels = body["status"]["channels"];
      if (channels.size() > 1) channels = json::array({channels.back()});
      request.body = body.dump();
    };
  }
}

}  // namespace cd::simulation
