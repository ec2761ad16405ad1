#include "src/plugin/plugin.h"

#include <utility>

#include "src/base/log.h"

namespace cd::plugin {

Result<std::unique_ptr<Plugin>> Plugin::Create(EventLoop& loop, kube::ApiClient& client, PluginOptions options) {
  std::unique_ptr<Plugin> plugin(new Plugin(loop, client, std::move(options)));
  if (auto recovered = plugin->instance_.Recover(); !recovered) return Fail(recovered.error());
  return plugin;
}

Plugin::Plugin(EventLoop& loop, kube::ApiClient& client, PluginOptions options)
    : loop_(loop),
      options_(std::move(options)),
      processes_(loop, options_.proc_root),
      daemon_(loop, options_.paths.plugin_dir / "daemon", options_.boot_id,
              [this](const api::NodeDaemon& daemon) {
                instance_.SetDaemon(daemon);
                SetHealth();
              }),
      instance_({loop, client, SystemDisk(), processes_, daemon_},
                {options_.node, options_.daemon_namespace, options_.instance, options_.boot_id, options_.paths, options_.slots,
                 options_.seed, options_.seed + 3},
                {.on_may_offer = [this] { slices_.BecomePublisher(instance_.Owner()); }}),
      slices_(loop, client, options_.node, options_.slots, options_.device_mode, options_.seed + 2) {}

Plugin::~Plugin() = default;

void Plugin::Start(HealthHandler on_health) {
  on_health_ = std::move(on_health);
  instance_.Start();
  checkpoint_watch_.emplace(loop_, options_.paths.plugin_dir, std::set<std::string>{kCheckpointFile},
                            [this] { instance_.CheckpointWritten(); });
  daemon_.Start();
  slices_.Start();
  fabric_watch_ = std::make_unique<FabricWatch>(loop_, options_.paths.driver_root_mount,
                                                [this](const fabric::FabricView& fabric) { OnFabric(fabric); });
  instance_.SeekPublisherLock();
}

void Plugin::OnFabric(const fabric::FabricView& fabric) {
  fabric_ = fabric;
  const std::string clique = fabric.OfferedClique();
  LogInfo("fabric", {{"node", options_.node},
                     {"state", ToString(fabric.state)},
                     {"cliqueID", clique},
                     {"driverVersion", fabric.driver_version},
                     {"reason", fabric.message}});
  instance_.SetFabric(fabric);
  slices_.SetOffer(clique, fabric.OffersChannel());
  SetHealth();
}

void Plugin::SetHealth() {
  if (!on_health_ || !fabric_) return;
  std::vector<DeviceHealth> devices;
  const int channels = slices_.mode() == DeviceMode::kMulti ? 1 : options_.slots;
  if (fabric_->NoFabric()) {
    for (int i = 0; i < channels; ++i) devices.push_back({options_.node, api::ChannelDevice(i), true, ""});
  }
  if (!fabric_->OfferedClique().empty()) {
    const bool fabric_good = fabric_->state == api::FabricState::kReady;
    const bool daemon_good = instance_.view().daemon.state == api::DaemonState::kReady;
    const std::string message = !fabric_good ? fabric_->message : daemon_good ? "" : "the node's IMEX daemon is not READY";
    for (int i = 0; i < channels; ++i) {
      devices.push_back({options_.node, api::ChannelDevice(i), fabric_good && daemon_good, message});
    }
    devices.push_back({options_.node, api::kDaemonDevice, fabric_good, fabric_good ? "" : fabric_->message});
  }
  on_health_(std::move(devices));
}

}  // namespace cd::plugin
