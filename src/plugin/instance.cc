#include "src/plugin/instance.h"

#include <utility>

#include "src/base/log.h"

namespace cd::plugin {

namespace {

constexpr Duration kSeekLock{250};

}  // namespace

Instance::Instance(const Machine& machine, InstanceOptions options, Handlers handlers)
    : executor_(machine.executor),
      daemon_(machine.daemon),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      files_(options_.paths, machine.disk),
      state_(executor_, options_.paths.plugin_dir, options_.boot_id, files_, machine.disk),
      reporter_(executor_, machine.client, state_, options_.node, options_.boot_id),
      before_reporter_(handlers_.report_through ? handlers_.report_through(reporter_) : nullptr),
      driver_(executor_, machine.client, state_, files_, before_reporter_ ? *before_reporter_ : reporter_,
              {options_.node, options_.daemon_namespace, options_.instance, options_.slots}),
      watch_(executor_, machine.client, options_.node, options_.watch_seed, [this] { OnView(); }),
      own_node_(executor_, machine.client, options_.node, options_.node_seed),
      linger_(executor_, state_, files_, machine.processes),
      sweeper_(executor_, machine.client, state_, files_, options_.node),
      publisher_lock_(options_.paths.plugin_dir / "publisher.lock", machine.disk) {}

Status Instance::Recover() {
  if (auto made = files_.MakeDirectories(); !made) return made;
  // Usually through before Transact returns; else, while another instance is at it, as soon as the executor runs.
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

void Instance::Start() {
  state_.OnChange([this] { OnCheckpoint(); });
  reporter_.OnRead([this] { ReconcileDaemon(); });
  watch_.Start();
}

// The instance before us lets go when it ends.
void Instance::SeekPublisherLock() {
  const auto held = publisher_lock_.TryLock();
  if (!held) LogError("cannot take the publisher's lock", {{"error", held.error().message}});
  if (held && *held) return BecomePublisher();
  executor_.PostAfter(kSeekLock, [this] { SeekPublisherLock(); });
}

void Instance::BecomePublisher() {
  LogInfo("this instance publishes", {{"node", options_.node}, {"instance", options_.instance}});
  publisher_ = true;
  state_.Refresh();
  daemon_.BecomePublisher();
  watch_.FollowUnassigned(daemon_.domain_name());
  linger_.Start();
  sweeper_.Start();
  reporter_.BecomePublisher(Owner());
  MayOffer();
  OnView();
  SetLabels();
}

void Instance::OnRegistered() {
  // A kubelet that started may have made its Node anew.
  if (std::exchange(registered_, true)) return CheckNode();
  reporter_.SetRegistered(FormatMicroTime(executor_.clock().WallNow()));
  MayOffer();
  SetLabels();
}

void Instance::MayOffer() {
  if (registered_ && publisher_ && handlers_.on_may_offer) handlers_.on_may_offer();
}

OwnerSource Instance::Owner() {
  return [this](OnOwner done) { own_node_.Read(std::move(done)); };
}

void Instance::CheckNode() {
  if (publisher_) own_node_.Check();
}

// Kubernetes takes the daemon's pod from the node when somebody removes its label.
void Instance::FollowDaemonClaim() {
  const bool claimed = HasDaemonClaim(state_.last());
  if (std::exchange(daemon_claimed_, claimed) && !claimed) CheckNode();
}

void Instance::SetFabric(const fabric::FabricView& fabric) {
  fabric_ = fabric;
  watch_.SetFabric(fabric);
  reporter_.SetFabric(fabric);
  SetLabels();
}

void Instance::SetDaemon(const api::NodeDaemon& daemon) {
  reporter_.SetDaemon(daemon);
  watch_.SetDaemon(daemon);
}

void Instance::OnView() {
  if (!watch_.Synced()) return;
  driver_.SetView(watch_.view());
  reporter_.SetObserved(watch_.view()->imex_node);
  ReconcileDaemon();
}

void Instance::OnCheckpoint() {
  reporter_.CheckpointChanged();
  linger_.CheckpointChanged();
  driver_.CheckpointChanged();
  ReconcileDaemon();
  FollowDaemonClaim();
  SetLabels();
}

// An assignment that was not read yet is no missing one: the daemon of workloads that run on must not stop for it.
void Instance::ReconcileDaemon() {
  if (watch_.Synced() && reporter_.IsCurrent(watch_.view()->imex_node)) daemon_.Reconcile(*watch_.view(), state_.last());
}

// A node keeps its daemon while its fabric is forming anew, and while a channel is held.
void Instance::SetLabels() {
  if (!publisher_ || !registered_ || !fabric_) return;
  const bool in_clique = fabric_->clique_ids.size() == 1;
  own_node_.SetLabels(fabric_->OfferedClique(), in_clique || !HeldChannels(state_.last()).empty());
}

}  // namespace cd::plugin
