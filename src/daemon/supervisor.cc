#include "src/daemon/supervisor.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace cd::daemon {
namespace {

using fabric::DaemonStatus;
using fabric::PeerStatus;

// Before a report named the peer.
constexpr char kUnknown[] = "UNKNOWN";

// Of the same daemons and lines.
bool SameMap(const fabric::DesiredDomain& a, const fabric::DesiredDomain& b) {
  return a.name == b.name && a.index == b.index && a.slots == b.slots;
}

std::optional<SteadyTime> Earlier(std::optional<SteadyTime> a, std::optional<SteadyTime> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace

Supervisor::Supervisor(std::string address) : address_(std::move(address)) {
  ResetStatus(fabric::kStateStopped);
}

std::vector<Action> Supervisor::Step(const Event& event, SteadyTime now) {
  actions_.clear();
  std::visit([&](const auto& e) { On(e, now); }, event);
  const bool had_ended = std::holds_alternative<Ended>(phase_);
  Advance(now);
  Publish();
  if (!had_ended && std::holds_alternative<Ended>(phase_)) actions_.push_back(Exit{});
  return std::exchange(actions_, {});
}

std::optional<SteadyTime> Supervisor::NextDeadline() const {
  if (const auto* waiting = std::get_if<Waiting>(&phase_)) return waiting->until;
  if (const auto* stopping = std::get_if<Stopping>(&phase_)) {
    return stopping->killed ? std::nullopt : std::optional(stopping->kill_at);
  }
  const auto* running = std::get_if<Running>(&phase_);
  if (running == nullptr) return std::nullopt;
  const auto signal = running->answered ? running->reconnect.NextDeadline() : std::nullopt;
  return Earlier(Earlier(signal, running->hosts_retry), inquiry_.NextDeadline());
}

void Supervisor::On(const DesiredRead& event, SteadyTime) {
  desired_error_.clear();
  desired_ = event.desired;
  status_.boot_id = event.desired.boot_id;
  const auto* running = std::get_if<Running>(&phase_);
  if (running == nullptr || event.desired.idle) return;
  if (running->setup.config != event.desired.config || running->setup.tls != event.desired.tls) {
    actions_.push_back(Note{"the configuration changed while channels are held: it is taken up when none is"});
  }
}

void Supervisor::On(const DesiredUnusable& event, SteadyTime) {
  desired_error_ = event.error;
}

void Supervisor::On(const ImexStarted& event, SteadyTime now) {
  auto* starting = std::get_if<Starting>(&phase_);
  if (starting == nullptr) return;
  Running running;
  running.setup = std::move(starting->setup);
  running.addresses = std::move(starting->addresses);
  status_.instance = event.instance;
  phase_ = std::move(running);
  inquiry_.Restart(now);
}

void Supervisor::On(const ImexNotStarted& event, SteadyTime now) {
  if (!std::holds_alternative<Starting>(phase_)) return;
  imex_error_ = event.error;
  BackOff(now);
}

void Supervisor::On(const ImexExited& event, SteadyTime now) {
  if (std::holds_alternative<Stopping>(phase_)) {
    imex_error_.clear();
    inquiry_.Stop();
    phase_ = Idle{};
    return;
  }
  const auto* running = std::get_if<Running>(&phase_);
  if (running == nullptr) return;
  if (running->ready_since && now - *running->ready_since >= kProven) backoff_ = kFirstBackoff;
  imex_error_ = "nvidia-imex " + event.how;
  BackOff(now);
}

void Supervisor::On(const HostsWritten&, SteadyTime) {
  hosts_error_.clear();
}

void Supervisor::On(const HostsNotWritten& event, SteadyTime now) {
  hosts_error_ = event.error;
  if (auto* running = std::get_if<Running>(&phase_)) {
    running->addresses.clear();
    running->hosts_retry = now + kHostsRetry;
  }
}

void Supervisor::On(const StateAnswered& event, SteadyTime now) {
  auto* running = std::get_if<Running>(&phase_);
  const bool failed = !event.state.has_value();
  const bool was_ready = status_.state == fabric::kStateReady;
  const bool gone = failed && running != nullptr && running->failed_answers > 0;
  const bool ready = failed ? was_ready && !gone : *event.state == fabric::kStateReady;
  if (!inquiry_.Answered(failed, ready, now) || running == nullptr) return;
  if (failed) {
    ++running->failed_answers;
    // One lost answer is no finding about nvidia-imex; before its first answer it is still starting.
    if (!running->answered || !gone) return;
    status_.state = "UNAVAILABLE";
    imex_error_ = event.state.error().message;
  } else {
    running->answered = true;
    running->failed_answers = 0;
    status_.state = *event.state;
    if (ready) imex_error_.clear();
  }
  if (!ready) running->ready_since.reset();
  if (ready && !running->ready_since) running->ready_since = now;
}

void Supervisor::On(const ReportAnswered& event, SteadyTime now) {
  const bool ready = status_.state == fabric::kStateReady;
  auto* running = std::get_if<Running>(&phase_);
  if (!inquiry_.Answered(!event.report.has_value(), ready, now) || running == nullptr || !event.report) return;
  running->links_known = true;
  if (!event.report->version.empty()) status_.imex_version = event.report->version;
  for (PeerStatus& peer : status_.peers) {
    const auto connection = event.report->connections.find(peer.index);
    peer.state = connection == event.report->connections.end() ? kUnknown : connection->second;
  }
  if (AllConnected()) running->reconnect.Satisfy();
}

void Supervisor::On(const LinkChanged&, SteadyTime now) {
  auto* running = std::get_if<Running>(&phase_);
  if (running == nullptr) return;
  running->links_known = false;
  inquiry_.Refresh(now);
}

void Supervisor::On(const StopRequested&, SteadyTime) {
  stop_requested_ = true;
}

std::optional<ImexSetup> Supervisor::Wanted() const {
  if (stop_requested_ || !desired_.run || !desired_.domain) return std::nullopt;
  return ImexSetup{*desired_.domain, desired_.config, desired_.tls};
}

void Supervisor::Advance(SteadyTime now) {
  const bool waiting = std::holds_alternative<Waiting>(phase_);
  if (std::holds_alternative<Idle>(phase_) || waiting) {
    auto wanted = Wanted();
    if (!wanted) {
      phase_ = stop_requested_ ? decltype(phase_)(Ended{}) : Idle{};
      imex_error_.clear();
      // Nothing runs: no domain and index are occupied by this daemon.
      ResetStatus(fabric::kStateStopped);
    } else if (!waiting || now >= std::get<Waiting>(phase_).until) {
      Start(*std::move(wanted));
    }
  } else if (auto* running = std::get_if<Running>(&phase_)) {
    AdvanceRunning(*running, now);
  } else if (auto* stopping = std::get_if<Stopping>(&phase_);
             stopping != nullptr && !stopping->killed && now >= stopping->kill_at) {
    stopping->killed = true;
    actions_.push_back(SignalImex{SIGKILL, "it did not stop in time"});
  }
}

void Supervisor::AdvanceRunning(Running& running, SteadyTime now) {
  if (std::string why = ReasonToStop(running.setup); !why.empty()) return StopImex(std::move(why), now);
  // A lost IMEXDomain that was made anew: the same daemons under another UID.
  running.setup.domain.uid = desired_.domain->uid;
  status_.domain_uid = running.setup.domain.uid;
  UpdateAddresses(running, now);
  if (running.answered && running.reconnect.TakeIfDue(now)) {
    actions_.push_back(SignalImex{SIGUSR1, "addresses of members changed or a member stays unconnected"});
    inquiry_.Refresh(now);
  }
  const auto signalled = running.reconnect.last_sent();
  const bool settling = running.reconnect.owed() || (signalled && now < *signalled + kSettle);
  inquiry_.WantReport(!running.links_known || settling || !AllConnected(), now);
  if (const auto question = inquiry_.TakeIfDue(now)) actions_.push_back(AskImex{*question, running.setup.domain.index});
}

// A member that left needs no signal: nothing is to be reached at the empty slot, and the signal shakes every other link.
void Supervisor::UpdateAddresses(Running& running, SteadyTime now) {
  if (running.hosts_retry && now < *running.hosts_retry) return;
  running.hosts_retry.reset();
  auto wanted = fabric::SlotAddresses(running.setup.domain, desired_.hosts, address_);
  if (wanted == running.addresses) return;
  for (std::size_t slot = 0; slot < wanted.size(); ++slot) {
    if (slot < running.addresses.size() && wanted[slot] == running.addresses[slot]) continue;
    if (wanted[slot] != fabric::kEmptySlotAddress) running.reconnect.Owe();
    for (PeerStatus& peer : status_.peers) {
      if (peer.index == static_cast<int>(slot)) peer.state = kUnknown;  // it was said of another address
    }
  }
  running.addresses = wanted;
  actions_.push_back(WriteHosts{running.setup.domain.name, std::move(wanted)});
  inquiry_.Refresh(now);
  SetPeers(running.setup.domain.index);
}

std::string Supervisor::ReasonToStop(const ImexSetup& setup) const {
  if (stop_requested_) return "the daemon was asked to stop";
  const auto wanted = Wanted();
  if (!wanted) return desired_.run ? "no IMEX domain is assigned any more" : "it is not to run";
  if (!SameMap(wanted->domain, setup.domain)) return "domain, index or number of slots changed";
  const bool same = wanted->config == setup.config && wanted->tls == setup.tls;
  return !same && desired_.idle ? "the configuration changed and no channel is held" : "";
}

void Supervisor::Start(ImexSetup setup) {
  auto addresses = fabric::SlotAddresses(setup.domain, desired_.hosts, address_);
  hosts_error_.clear();
  ResetStatus(fabric::kStateStarting);
  status_.domain = setup.domain.name;
  status_.domain_uid = setup.domain.uid;
  status_.index = setup.domain.index;
  SetPeers(setup.domain.index);
  phase_ = Starting{setup, addresses};
  WriteHosts hosts{setup.domain.name, std::move(addresses)};
  actions_.push_back(StartImex{std::move(setup), std::move(hosts)});
}

void Supervisor::StopImex(std::string why, SteadyTime now) {
  phase_ = Stopping{now + kStopGrace};
  inquiry_.Stop();
  status_.state = fabric::kStateStopping;
  actions_.push_back(SignalImex{SIGTERM, std::move(why)});
}

void Supervisor::BackOff(SteadyTime now) {
  inquiry_.Stop();
  phase_ = Waiting{now + backoff_};
  backoff_ = std::min(backoff_ * 2, kLongestBackoff);
  status_.state = fabric::kStateFailed;
  for (PeerStatus& peer : status_.peers) peer.state = kUnknown;
}

void Supervisor::ResetStatus(const char* state) {
  DaemonStatus status;
  status.boot_id = std::move(status_.boot_id);
  status.address = address_;
  status.state = state;
  status_ = std::move(status);
}

void Supervisor::SetPeers(int own_index) {
  std::vector<PeerStatus> peers;
  for (const fabric::DesiredHost& host : desired_.hosts) {
    if (host.index == own_index) continue;
    const auto same =
        std::find_if(status_.peers.begin(), status_.peers.end(), [&](const PeerStatus& p) { return p.index == host.index; });
    peers.push_back(same != status_.peers.end() ? *same : PeerStatus{host.index, kUnknown});
  }
  std::sort(peers.begin(), peers.end(), [](const PeerStatus& a, const PeerStatus& b) { return a.index < b.index; });
  status_.peers = std::move(peers);
}

bool Supervisor::AllConnected() const {
  return std::all_of(status_.peers.begin(), status_.peers.end(),
                     [](const PeerStatus& p) { return p.state == fabric::kPeerConnected; });
}

// Between the order to start and the answer nothing is known that a reader could use.
void Supervisor::Publish() {
  if (std::holds_alternative<Starting>(phase_)) return;
  status_.error = !desired_error_.empty() ? desired_error_ : !hosts_error_.empty() ? hosts_error_ : imex_error_;
  if (published_ == status_) return;
  published_ = status_;
  actions_.push_back(PublishStatus{status_});
}

}  // namespace cd::daemon
