#include "src/plugin/daemon_link.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "src/base/log.h"
#include "src/base/text.h"
#include "src/fabric/daemon_directory.h"

namespace cd::plugin {

namespace {

constexpr Duration kRetry{1'000};

// By the domain's name: a lost IMEXDomain comes back under the same name as another object, and its daemons are the same.
bool HoldsChannel(const Checkpoint& checkpoint, const std::function<bool(const std::string& domain)>& of) {
  return std::any_of(checkpoint.claims.begin(), checkpoint.claims.end(),
                     [&](const auto& item) {
                       const auto& grant = item.second.grant;
                       return grant && !grant->WithoutChannel() && of(grant->domain);
                     }) ||
         std::any_of(checkpoint.lingering.begin(), checkpoint.lingering.end(),
                     [&](const auto& item) { return of(item.second.domain); });
}

// Channels that processes may have. One that is announced only was given to nobody: where it is not granted its check withdraws
// it.
std::vector<api::NodeChannel> InProcesses(const Checkpoint& checkpoint) {
  Checkpoint given = checkpoint;
  std::erase_if(given.claims, [](const auto& item) { return item.second.phase != ClaimPhase::kCompleted; });
  return HeldChannels(given);
}

// The assignment was written before the domain was read, see NodeWatch. Where the domain does not know of it the place is
// somebody else's, or may become so.
bool HasPlace(const NodeView& view, int index) {
  const api::DomainMember* const member = api::FindMember(*view.domain, view.node);
  return member != nullptr && member->index == index;
}

// The domain that the daemon runs in counts this node in, and all that is held here of it is granted. Such a node is never
// deprived of its place: an assignment that is gone was lost by accident, perhaps with the whole IMEXNode, and is on its way
// back. A domain that was not read yet, or is lost and not made anew, says nothing against it.
bool StillMember(const NodeView& view, const Checkpoint& checkpoint, const fabric::DesiredDomain& run) {
  if (!view.domain || !api::IsMade(*view.domain) || view.domain->meta.name != run.name)
    return HoldsChannel(checkpoint, [&](const std::string& domain) { return domain == run.name; });
  const auto granted = [&](const api::NodeChannel& held) {
    const auto& leases = view.domain->channels;
    return std::any_of(leases.begin(), leases.end(), [&](const api::ChannelLease& lease) {
      return lease.channel == held.channel && lease.compute_domain.uid == held.compute_domain_uid;
    });
  };
  const auto held = HeldChannels(checkpoint);
  const auto given = InProcesses(checkpoint);
  return HasPlace(view, run.index) && std::any_of(held.begin(), held.end(), granted) &&
         std::all_of(given.begin(), given.end(), granted);
}

fabric::Desired Stopped(const std::string& boot_id) {
  fabric::Desired stopped;
  stopped.boot_id = boot_id;
  stopped.idle = true;
  return stopped;
}

fabric::DesiredConfig ConfigOf(const api::ImexConfig& config) {
  fabric::DesiredConfig out;
  if (!config.wait_for_quorum.empty()) out.wait_for_quorum = config.wait_for_quorum;
  out.node_disconnected_grace_seconds = config.node_disconnected_grace_seconds.value_or(out.node_disconnected_grace_seconds);
  out.log_level = config.log_level.value_or(out.log_level);
  return out;
}

}  // namespace

fabric::Desired DecideDesired(const NodeView& view, const Checkpoint& checkpoint, const std::string& boot_id,
                              const std::optional<fabric::Desired>& current) {
  fabric::Desired stopped = Stopped(boot_id);
  const bool running = current && current->run && current->domain;
  if (!view.imex_node || !view.imex_node->domain) {
    return running && StillMember(view, checkpoint, *current->domain) ? *current : stopped;
  }
  const api::DomainAssignment& assigned = *view.imex_node->domain;
  const bool read = view.domain && view.domain->meta.uid == assigned.uid;
  const bool in_place = running && current->domain->name == assigned.name && current->domain->index == assigned.index &&
                        (!read || current->domain->slots == view.domain->node_slots);
  // The node map cannot change under held channels: the daemon keeps running what it runs until they are given up, and one that
  // does not run must not join another domain with them.
  const auto own = [&](const std::string& domain) { return domain == current->domain->name; };
  if (running && !in_place && HoldsChannel(checkpoint, own)) return *current;
  if (HoldsChannel(checkpoint, [&](const std::string& domain) { return domain != assigned.name; })) return stopped;
  // The domain's object is read a moment after the assignment; a daemon that serves it already is not stopped for that.
  if (!read || !HasPlace(view, assigned.index)) return in_place ? *current : stopped;

  fabric::Desired out;
  out.run = true;
  out.boot_id = boot_id;
  out.idle = !HoldsChannel(checkpoint, [](const std::string&) { return true; });
  out.domain = fabric::DesiredDomain{assigned.name, assigned.uid, assigned.index, view.domain->node_slots};
  out.config = ConfigOf(view.domain->imex_config);
  for (const api::DomainMember& member : view.domain->members) {
    if (IsIpAddress(member.address)) out.hosts.push_back({member.index, member.address});
  }
  std::sort(out.hosts.begin(), out.hosts.end());
  return out;
}

api::NodeDaemon WithPlace(api::NodeDaemon status, const std::optional<fabric::Desired>& told) {
  if (!told || !told->run || !told->domain) return status;
  // A daemon of an older version does not say the name.
  if (status.domain.empty() && status.domain_uid == told->domain->uid) status.domain = told->domain->name;
  if (!status.domain_uid.empty()) return status;
  status.domain = told->domain->name;
  status.domain_uid = told->domain->uid;
  status.index = told->domain->index;
  return status;
}

DaemonLink::DaemonLink(EventLoop& loop, std::filesystem::path dir, std::string boot_id,
                       std::function<void(const api::NodeDaemon&)> on_status)
    : loop_(loop), dir_(std::move(dir)), boot_id_(std::move(boot_id)), on_status_(std::move(on_status)) {}

DaemonLink::~DaemonLink() {
  loop_.Cancel(retry_);
}

void DaemonLink::Start() {
  watch_.emplace(loop_, fabric::StatusPath(dir_).parent_path(), std::set<std::string>{"status.json", "daemon.lock"},
                 [this] { ReadStatus(); });
  ReadStatus();
}

void DaemonLink::ReadStatus() {
  api::NodeDaemon daemon;
  // A status without a living daemon, or of another boot, was left behind.
  if (fabric::DaemonAlive(dir_)) {
    if (const auto status = fabric::ReadDaemonStatus(dir_); status) {
      if (status->boot_id.empty() || status->boot_id == boot_id_) daemon = fabric::ToNodeDaemon(*status);
    } else if (status.error().code != ErrorCode::kNotFound) {
      LogWarning("cannot read the daemon's status", {{"error", status.error().message}});
    }
  }
  status_ = std::move(daemon);
  Tell();
}

void DaemonLink::Tell() {
  const api::NodeDaemon daemon = WithPlace(status_, written_);
  if (daemon == told_) return;
  told_ = daemon;
  on_status_(daemon);
}

void DaemonLink::BecomePublisher() {
  publisher_ = true;
  if (auto present = fabric::ReadDesired(dir_); present && present->boot_id == boot_id_) {
    written_ = std::move(*present);
  } else if (present) {
    // Of the boot before: that place may be another node's by now. The daemon knows of no boots and would start there, which
    // nothing reports, as nobody of this boot has told it to.
    wanted_ = Stopped(boot_id_);
    Write();
  }
  Tell();
}

void DaemonLink::Reconcile(const NodeView& view, const Checkpoint& checkpoint) {
  if (!publisher_) return;
  wanted_ = DecideDesired(view, checkpoint, boot_id_, written_);
  Write();
}

// Pods wait for what it says, so a disk that fails for a while (it may be full) is tried again.
void DaemonLink::Write() {
  if (written_ == wanted_) return;
  if (const Status written = fabric::WriteDesired(dir_, *wanted_); !written) {
    if (!std::exchange(failing_, true)) {
      LogError("cannot tell the daemon what to run, trying on", {{"error", written.error().message}});
    }
    loop_.Cancel(retry_);
    retry_ = loop_.PostAfter(kRetry, [this] { Write(); });
    return;
  }
  const bool moved = !written_ || written_->run != wanted_->run || written_->domain != wanted_->domain;
  if (moved || failing_) {
    LogInfo("daemon told what to run", {{"run", wanted_->run},
                                        {"domain", wanted_->domain ? wanted_->domain->name : ""},
                                        {"index", wanted_->domain ? wanted_->domain->index : -1}});
  }
  failing_ = false;
  written_ = wanted_;
  Tell();
}

}  // namespace cd::plugin
