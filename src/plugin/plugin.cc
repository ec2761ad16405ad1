#include "src/plugin/plugin.h"

#include <utility>

#include "src/base/log.h"

namespace cd::plugin {

namespace {

constexpr Duration kSeekLock{250};

// The clique whose channels may be offered. A sick fabric is still the node's fabric; one that is forming offers nothing yet.
std::string OfferedClique(const fabric::FabricView& fabric) {
  const bool usable = fabric.state == api::FabricState::kReady || fabric.state == api::FabricState::kDegraded;
  return usable && fabric.clique_ids.size() == 1 ? fabric.clique_ids.front() : "";
}

}  // namespace

Result<std::unique_ptr<Plugin>> Plugin::Create(EventLoop& loop, kube::ApiClient& client, PluginOptions options) {
  std::unique_ptr<Plugin> plugin(new Plugin(loop, client, std::move(options)));
  if (auto recovered = plugin->Recover(); !recovered) return Fail(recovered.error());
  return plugin;
}

Plugin::Plugin(EventLoop& loop, kube::ApiClient& client, PluginOptions options)
    : loop_(loop),
      options_(std::move(options)),
      files_(options_.paths),
      state_(loop, options_.paths.plugin_dir, options_.boot_id, files_),
      reporter_(loop, client, state_, options_.node, options_.boot_id),
      driver_(loop, client, state_, files_, reporter_,
              {options_.node, options_.daemon_namespace, options_.instance, options_.slots}),
      watch_(loop, client, options_.node, options_.seed, [this] { OnView(); }),
      daemon_(loop, options_.paths.plugin_dir / "daemon", options_.boot_id,
              [this](const api::NodeDaemon& daemon) {
                reporter_.SetDaemon(daemon);
                watch_.SetDaemon(daemon);
                SetHealth();
              }),
      slices_(loop, client, options_.node, options_.slots, options_.device_mode, options_.seed + 2),
      own_node_(loop, client, options_.node, options_.seed + 3),
      processes_(loop, options_.proc_root),
      linger_(loop, state_, files_, processes_),
      sweeper_(loop, client, state_, files_, options_.node),
      publisher_lock_(options_.paths.plugin_dir / "publisher.lock") {}

Plugin::~Plugin() = default;

Status Plugin::Recover() {
  if (auto made = files_.MakeDirectories(); !made) return made;
  // Usually through before Transact returns; else, while another instance is at it, as soon as the loop runs.
  const auto result = std::make_shared<Status>();
  state_.Transact(
      [this](Checkpoint& checkpoint) -> Status {
        for (const auto& [uid, entry] : checkpoint.claims) {
          if (entry.phase != ClaimPhase::kCompleted) continue;
          if (auto written = files_.Write(entry); !written) {
            // The driver may be reloading: Prepare of the claim writes them again, Unprepare needs none.
            LogWarning("cannot write a prepared claim's CDI spec again", {{"claimUID", uid}, {"error", written.error().message}});
          }
        }
        files_.RemoveStrays(checkpoint);
        return {};
      },
      [result](Status done) {
        if (!done) LogError("cannot read what is prepared here", {{"error", done.error().message}});
        *result = std::move(done);
      });
  return *result;
}

void Plugin::Start(HealthHandler on_health) {
  on_health_ = std::move(on_health);
  state_.OnChange([this] { OnCheckpoint(); });
  reporter_.OnRead([this] { ReconcileDaemon(); });
  checkpoint_watch_.emplace(loop_, options_.paths.plugin_dir, std::set<std::string>{state_.path().filename().string()},
                            [this] { state_.Refresh(); });
  daemon_.Start();
  watch_.Start();
  slices_.Start();
  fabric_watch_ = std::make_unique<FabricWatch>(loop_, options_.paths.driver_root_mount,
                                                [this](const fabric::FabricView& fabric) { OnFabric(fabric); });
  SeekPublisherLock();
}

// The instance before us lets go when it ends.
void Plugin::SeekPublisherLock() {
  const auto held = publisher_lock_.TryLock();
  if (!held) LogError("cannot take the publisher's lock", {{"error", held.error().message}});
  if (held && *held) return BecomePublisher();
  loop_.PostAfter(kSeekLock, [this] { SeekPublisherLock(); });
}

void Plugin::BecomePublisher() {
  LogInfo("this instance publishes", {{"node", options_.node}, {"instance", options_.instance}});
  publisher_ = true;
  state_.Refresh();
  daemon_.BecomePublisher();
  watch_.FollowUnassigned(daemon_.domain_name());
  linger_.Start();
  sweeper_.Start();
  reporter_.BecomePublisher(Owner());
  Offer();
  OnView();
  SetLabels();
}

void Plugin::OnRegistered() {
  // A kubelet that started may have made its Node anew.
  if (std::exchange(registered_, true)) return CheckNode();
  reporter_.SetRegistered(FormatMicroTime(loop_.clock().WallNow()));
  Offer();
  SetLabels();
}

void Plugin::Offer() {
  if (registered_ && publisher_) slices_.BecomePublisher(Owner());
}

OwnerSource Plugin::Owner() {
  return [this](OnOwner done) { own_node_.Read(std::move(done)); };
}

void Plugin::CheckNode() {
  if (publisher_) own_node_.Check();
}

// Kubernetes takes the daemon's pod from the node when somebody removes its label.
void Plugin::FollowDaemonClaim() {
  const bool claimed = HasDaemonClaim(state_.last());
  if (std::exchange(daemon_claimed_, claimed) && !claimed) CheckNode();
}

void Plugin::OnFabric(const fabric::FabricView& fabric) {
  fabric_ = fabric;
  fabric_read_ = true;
  const std::string clique = OfferedClique(fabric);
  LogInfo("fabric", {{"node", options_.node},
                     {"state", ToString(fabric.state)},
                     {"cliqueID", clique},
                     {"driverVersion", fabric.driver_version},
                     {"reason", fabric.message}});
  watch_.SetFabric(fabric);
  slices_.SetOffer(clique, fabric.OffersChannel());
  reporter_.SetFabric(fabric);
  SetLabels();
  SetHealth();
}

void Plugin::OnView() {
  if (!watch_.Synced()) return;
  driver_.SetView(watch_.view());
  reporter_.SetObserved(watch_.view()->imex_node);
  ReconcileDaemon();
}

void Plugin::OnCheckpoint() {
  reporter_.CheckpointChanged();
  linger_.CheckpointChanged();
  driver_.CheckpointChanged();
  ReconcileDaemon();
  FollowDaemonClaim();
  SetLabels();
}

// An assignment that was not read yet is no missing one: the daemon of workloads that run on must not stop for it.
void Plugin::ReconcileDaemon() {
  if (watch_.Synced() && reporter_.IsCurrent(watch_.view()->imex_node)) daemon_.Reconcile(*watch_.view(), state_.last());
}

// A node keeps its daemon while its fabric is forming anew, and while a channel is held.
void Plugin::SetLabels() {
  if (!publisher_ || !registered_ || !fabric_read_) return;
  const bool in_clique = fabric_.clique_ids.size() == 1;
  own_node_.SetLabels(OfferedClique(fabric_), in_clique || !HeldChannels(state_.last()).empty());
}

void Plugin::SetHealth() {
  if (!on_health_ || !fabric_read_) return;
  std::vector<DeviceHealth> devices;
  const int channels = slices_.mode() == DeviceMode::kMulti ? 1 : options_.slots;
  if (fabric_.NoFabric()) {
    for (int i = 0; i < channels; ++i) devices.push_back({options_.node, api::ChannelDevice(i), true, ""});
  }
  if (!OfferedClique(fabric_).empty()) {
    const bool fabric_good = fabric_.state == api::FabricState::kReady;
    const bool daemon_good = watch_.view()->daemon.state == api::DaemonState::kReady;
    const std::string message = !fabric_good ? fabric_.message : daemon_good ? "" : "the node's IMEX daemon is not READY";
    for (int i = 0; i < channels; ++i) {
      devices.push_back({options_.node, api::ChannelDevice(i), fabric_good && daemon_good, message});
    }
    devices.push_back({options_.node, api::kDaemonDevice, fabric_good, fabric_good ? "" : fabric_.message});
  }
  on_health_(std::move(devices));
}

}  // namespace cd::plugin
