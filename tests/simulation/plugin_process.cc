#include "tests/simulation/plugin_process.h"

#include <algorithm>
#include <utility>

#include "src/plugin/instance.h"

namespace cd::simulation {

using nlohmann::json;

namespace {

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

std::unique_ptr<plugin::ChannelReport> ReportThrough(const Context& context, plugin::ChannelReport& reporter) {
  if (context.Has(Bug::kSkipAnnounce)) return std::make_unique<ReportAtOnce>();
  if (context.Has(Bug::kIgnoreMove)) return std::make_unique<ReportAnyway>(reporter);
  return nullptr;
}

// Tells the node's daemon without files, as DaemonLink does with them.
class HostsDaemon final : public plugin::DaemonOrders {
 public:
  HostsDaemon(Context& context, PluginHost& host, std::function<void(const api::NodeDaemon&)> on_status)
      : context_(context), host_(host), boot_id_(host.BootId()), on_status_(std::move(on_status)) {}

  void ReadStatus() {
    const api::NodeDaemon status = plugin::WithPlace(host_.DaemonStatus(), written_);
    if (status == told_) return;
    told_ = status;
    on_status_(status);
  }

  void BecomePublisher() override {
    if (context_.trace.on()) context_.trace.Add(host_.Name(), "an instance publishes");
    publisher_ = true;
    if (auto present = host_.Desired(); present && present->boot_id == boot_id_) written_ = std::move(*present);
    ReadStatus();
  }
  std::string domain_name() const override { return written_ && written_->run && written_->domain ? written_->domain->name : ""; }
  void Reconcile(const plugin::NodeView& view, const plugin::Checkpoint& checkpoint) override {
    if (!publisher_) return;
    const plugin::Checkpoint none;
    fabric::Desired desired =
        plugin::DecideDesired(view, context_.Has(Bug::kSwitchUnderChannels) ? none : checkpoint, boot_id_, written_);
    if (written_ == desired) return;
    host_.SetDesired(desired);
    written_ = std::move(desired);
    ReadStatus();
  }

 private:
  Context& context_;
  PluginHost& host_;
  const std::string boot_id_;
  const std::function<void(const api::NodeDaemon&)> on_status_;
  bool publisher_ = false;
  api::NodeDaemon told_;
  std::optional<fabric::Desired> written_;
};

}  // namespace

struct PluginProcess::Core {
  Core(PluginProcess& process, Context& context, PluginHost& host)
      : daemon(context, host, [this](const api::NodeDaemon& status) { instance.SetDaemon(status); }),
        instance({process.executor_, process.client_, process.disk_, process, daemon},
                 {host.Name(), "driver", process.name_, host.BootId(), PathsOf(context), api::kDefaultSlots, context.dice.Next(),
                  context.dice.Next()},
                 {.report_through = [&context](plugin::ChannelReport& reporter) { return ReportThrough(context, reporter); }}) {}

  void Start(const fabric::FabricView& fabric) {
    (void)instance.Recover();
    instance.Start();
    daemon.ReadStatus();
    instance.SetFabric(fabric);
    instance.SeekPublisherLock();
  }

  HostsDaemon daemon;
  plugin::Instance instance;
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
    core_->Start(Fabric());
    registered_ = true;
    core_->instance.OnRegistered();
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

fabric::FabricView PluginProcess::Fabric() const {
  fabric::FabricView view = host_.Fabric();
  if (context_.Has(Bug::kSickIsNone) && view.state != api::FabricState::kReady) {
    view.state = api::FabricState::kNone;
    view.clique_ids.clear();
  }
  return view;
}

void PluginProcess::Prepare(plugin::CallId call, const api::ObjectRef& claim, std::function<void(plugin::PrepareResult)> done) {
  executor_.Post([this, call, claim, done = std::move(done)] { core_->instance.driver().Prepare(call, claim, done); });
}
void PluginProcess::Unprepare(const api::ObjectRef& claim, std::function<void(Status)> done) {
  executor_.Post([this, claim, done = std::move(done)] { core_->instance.driver().Unprepare(claim, done); });
}
void PluginProcess::Cancel(plugin::CallId call) {
  executor_.Post([this, call] { core_->instance.driver().Cancelled(call); });
}
void PluginProcess::FabricChanged() {
  executor_.Post([this] { core_->instance.SetFabric(Fabric()); });
}
void PluginProcess::DaemonChanged() {
  executor_.Post([this] { core_->daemon.ReadStatus(); });
}
void PluginProcess::CheckpointChanged() {
  executor_.Post([this] { core_->instance.CheckpointWritten(); });
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
