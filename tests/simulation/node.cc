// The machine: power, plugins, daemon. Its kubelet is in kubelet.cc.
#include "tests/simulation/node.h"

#include <algorithm>
#include <utility>

namespace cd::simulation {

namespace {

constexpr char kDriverNamespace[] = "driver";

}  // namespace

Node::Node(Context& context, std::string name, std::string clique)
    : context_(context),
      name_(std::move(name)),
      clique_(std::move(clique)),
      fabric_(clique_.empty() ? api::FabricState::kNone : api::FabricState::kReady) {
  disk_->on_change = [this](const std::string& path) {
    for (const std::string& uid : unprepared_) {
      if (path.starts_with("/cdi/") && path.find(uid) != std::string::npos)
        context_.Violate("R7", "claim " + uid + " is prepared again on " + name_ + " after its Unprepare");
    }
    if (plugins_.size() > 1 && path.ends_with("checkpoint.json")) TellPlugins(&PluginProcess::CheckpointChanged);
  };
}

Node::~Node() = default;

void Node::TellPlugins(void (PluginProcess::*what)()) {
  for (const auto& plugin : plugins_) (plugin.get()->*what)();
}

void Node::StartPlugin() {
  if (!powered_ || plugins_.size() >= 2) return;
  plugins_.push_back(std::make_unique<PluginProcess>(context_, *this));
  context_.trace.Add(name_, "plugin starts", plugins_.back()->name());
}

void Node::StopPlugin(std::size_t which) {
  context_.trace.Add(name_, "plugin ends", plugins_[which]->name());
  plugins_.erase(plugins_.begin() + static_cast<std::ptrdiff_t>(which));
  AbandonCalls();
}

void Node::ReapPlugins() {
  for (std::size_t i = plugins_.size(); i-- > 0;) {
    if (plugins_[i]->dead()) StopPlugin(i);
  }
}

// A call whose server died is an error for the kubelet; with two instances it may have gone to the other one, and is repeated all
// the same.
void Node::AbandonCalls() {
  for (auto& [uid, work] : pods_) {
    if (work.phase == PodWork::Phase::kPreparing) {
      work.phase = PodWork::Phase::kWaiting;
      work.due = context_.clock.Now() + context_.dice.Between(Duration(60'000), Duration(90'000));
    } else if (work.phase == PodWork::Phase::kCalled) {
      work.phase = PodWork::Phase::kUnpreparing;
      work.due = context_.clock.Now() + context_.dice.Between(Duration(900), Duration(11'500));
    } else {
      continue;
    }
    work.call = 0;
  }
}

fabric::FabricView Node::Fabric() const {
  fabric::FabricView view;
  view.state = fabric_;
  view.driver_version = "580.1";
  if (fabric_ != api::FabricState::kNone) view.clique_ids = {clique_};
  if (fabric_ != api::FabricState::kReady) view.message = "the fabric is sick";
  return view;
}

void Node::SetFabric(api::FabricState state, const std::string& clique) {
  fabric_ = state;
  clique_ = clique;
  context_.trace.Add(name_, "fabric changes", clique);
  TellPlugins(&PluginProcess::FabricChanged);
}

// ---- the daemon

api::NodeDaemon Node::DaemonStatus() const {
  api::NodeDaemon status;
  if (!daemon_.pod) return status;
  status.address = daemon_.address;
  status.instance = daemon_.instance;
  status.revision = daemon_.revision;
  status.pod_uid = daemon_.pod_uid;
  if (!daemon_.instance.empty()) {
    status.domain = daemon_.domain.name;
    status.domain_uid = daemon_.domain.uid;
    status.index = daemon_.domain.index;
  }
  status.connected = context_.connected(name_);
  status.state = !daemon_.running ? api::DaemonState::kNotReady
                 : daemon_.ready  ? api::DaemonState::kReady
                                  : api::DaemonState::kStarting;
  return status;
}

void Node::SetDesired(const fabric::Desired& desired) {
  if (context_.trace.on()) {
    context_.trace.Add(name_, "daemon is told",
                       desired.run ? "run " + desired.domain->name + " as " + std::to_string(desired.domain->index) : "stop");
  }
  desired_ = desired;
}

bool Node::DaemonHasWork() const {
  if (DaemonPodEnds()) return true;
  if (!powered_ || !daemon_.pod || !desired_) return false;
  const bool wanted = desired_->run && desired_->domain && desired_->boot_id == BootId();
  if (daemon_.running) return !wanted || *desired_->domain != daemon_.domain || !daemon_.ready;
  return wanted;
}

// Its pod was told to end, by whomever.
bool Node::DaemonPodEnds() const {
  if (!powered_ || !daemon_.pod) return false;
  const ObjectPtr pod = context_.server.Find(api::kPods, {kDriverNamespace, daemon_.pod_name});
  return pod == nullptr || pod->at("metadata").contains("deletionTimestamp");
}

// The DaemonSet makes another one, of the template as it is then.
void Node::EndDaemonPod() {
  if (daemon_.running) StopImex("its pod is deleted");
  context_.server.Erase(api::kPods, {kDriverNamespace, daemon_.pod_name});
  daemon_ = Daemon();
  TellPlugins(&PluginProcess::DaemonChanged);
  context_.environment.PostAfter(context_.dice.Between(Duration(100), Duration(10'000)), [this] { StartDaemon(); });
}

void Node::StepDaemon() {
  if (DaemonPodEnds()) return EndDaemonPod();
  const bool wanted = desired_->run && desired_->domain && desired_->boot_id == BootId();
  const auto same_map = [](const fabric::DesiredDomain& a, const fabric::DesiredDomain& b) {
    return a.name == b.name && a.index == b.index && a.slots == b.slots;
  };
  if (daemon_.running && (!wanted || !same_map(*desired_->domain, daemon_.domain))) {
    StopImex("as it was told");
  } else if (daemon_.running && *desired_->domain != daemon_.domain) {
    daemon_.domain = *desired_->domain;  // rebuilt: another UID of the same
  } else if (daemon_.running) {
    daemon_.ready = true;
    context_.trace.Add(name_, "daemon is READY");
  } else if (wanted) {
    daemon_.running = true;
    daemon_.ready = false;
    daemon_.domain = *desired_->domain;
    daemon_.instance = "imex-" + std::to_string(context_.next_instance++);
    context_.trace.Add(name_, "nvidia-imex starts", daemon_.domain.name + " index " + std::to_string(daemon_.domain.index));
  }
  context_.holders_changed = context_.daemons_changed = true;
  TellPlugins(&PluginProcess::DaemonChanged);
}

// As the API has it: the domain the daemon runs in counts the node in, and grants all that its processes hold.
bool Node::IsInPlace() const {
  const ObjectPtr object = context_.server.Find(api::kImexDomains, {"", daemon_.domain.name});
  if (object == nullptr) return false;
  const auto domain = api::DecodeImexDomain(*object);
  const api::DomainMember* const member = api::FindMember(*domain, name_);
  return member != nullptr && member->index == daemon_.domain.index &&
         std::all_of(containers_.begin(), containers_.end(), [&](const auto& item) {
           const api::ChannelLease* const lease = api::FindLease(*domain, item.second.compute_domain_uid);
           return lease != nullptr && lease->channel == item.second.channel;
         });
}

void Node::StopImex(const char* why) {
  if (why != std::string_view("crash") && !desired_->run && !containers_.empty() && IsInPlace())
    context_.Violate("R4", "nvidia-imex of " + name_ + " is stopped under " + std::to_string(containers_.size()) + " processes");
  for (const auto& [pid, container] : containers_) {
    const bool crash = why == std::string_view("crash");
    if (!crash && desired_->run)
      context_.Violate("R4", "nvidia-imex of " + name_ + " is restarted under process " + std::to_string(pid));
  }
  daemon_.running = false;
  daemon_.ready = false;
  daemon_.instance.clear();
  daemon_.domain = {};
  context_.holders_changed = context_.daemons_changed = true;
  context_.trace.Add(name_, "nvidia-imex ends", why);
}

void Node::StartDaemon() {
  if (!powered_ || daemon_.pod) return;
  if (!daemon_.pod_name.empty()) context_.server.Erase(api::kPods, {kDriverNamespace, daemon_.pod_name});
  daemon_ = Daemon();
  daemon_.pod = true;
  daemon_.revision = std::to_string(context_.daemon_revision);
  daemon_.pod_name = "daemon-of-" + name_ + "-" + std::to_string(daemon_pods_++);
  const auto pod = context_.server.Handle(kube::Create(api::kPods, kDriverNamespace,
                                                       {{"metadata",
                                                         {{"name", daemon_.pod_name},
                                                          {"finalizers", nlohmann::json::array({"simulation/kubelet"})},
                                                          {"labels",
                                                           {{"app.kubernetes.io/name", "computedomain-driver"},
                                                            {"app.kubernetes.io/component", "daemon"},
                                                            {api::kDaemonRevisionLabel, daemon_.revision}}}}},
                                                        {"spec", {{"nodeName", name_}}}}));
  daemon_.pod_uid = pod->at("metadata")["uid"];
  daemon_.address = "10.0." + name_.substr(name_.find('-') + 1) + "." + std::to_string(pod_ips_++ % 250 + 1);
  TellPlugins(&PluginProcess::DaemonChanged);
}

void Node::CrashDaemon() {
  if (!daemon_.pod) return;
  StopImex("crash");
  if (context_.dice.PerMille(500)) daemon_.pod = false;
  TellPlugins(&PluginProcess::DaemonChanged);
}

// ---- power

void Node::PowerOff() {
  if (!powered_) return;
  context_.trace.Add(name_, "goes down");
  powered_ = false;
  plugins_.clear();
  containers_.clear();
  if (daemon_.pod) context_.server.Erase(api::kPods, {kDriverNamespace, daemon_.pod_name});
  daemon_ = Daemon();
  context_.holders_changed = context_.daemons_changed = true;
  std::erase_if(disk_->files, [](const auto& file) { return file.first.starts_with("/cdi/"); });
  disk_->locks.clear();
  // What the kubelet knew of pods it reads again.
  for (auto& [uid, work] : pods_) {
    work.pid = 0;
    work.call = 0;
    if (work.phase < PodWork::Phase::kEnding && !work.deleting) {
      work.phase = PodWork::Phase::kWaiting;
    } else {
      work.phase = PodWork::Phase::kUnpreparing;
    }
  }
}

void Node::PowerOn() {
  if (powered_) return;
  powered_ = true;
  ++boot_;
  context_.trace.Add(name_, "boots", BootId());
  StartPlugin();
}

std::vector<std::pair<pid_t, std::string>> Node::ProcessesWithMarker() const {
  std::vector<std::pair<pid_t, std::string>> out;
  for (const auto& [pid, container] : containers_) out.emplace_back(pid, container.claim_uid);
  return out;
}

}  // namespace cd::simulation
