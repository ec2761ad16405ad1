// What the daemon does about nvidia-imex: a state machine without I/O or clock. An event and the time go in, actions come out.
//
// Membership never restarts nvidia-imex, since a restart kills what local jobs imported from other nodes: addresses go into the
// hosts file and a signal. It is restarted for another domain, uid, index or number of slots, for a changed configuration while
// the plugin says that no channel is held, and when it ended by itself.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/daemon/inquiry.h"
#include "src/daemon/reconnect_signal.h"
#include "src/fabric/daemon_files.h"
#include "src/fabric/imex_control.h"

namespace cd::daemon {

// ---- events
struct DesiredRead {
  fabric::Desired desired;
};
// desired.json is missing or cannot be used: the last good one stays in force.
struct DesiredUnusable {
  std::string error;
};
struct ImexStarted {
  std::string instance;
};
struct ImexNotStarted {
  std::string error;
};
struct ImexExited {
  std::string how;  // "exited with status 1: <last line>"
};
struct HostsWritten {};
struct HostsNotWritten {
  std::string error;
};
struct StateAnswered {
  Result<std::string> state;
};
struct ReportAnswered {
  Result<fabric::DomainReport> report;
};
// nvidia-imex logged that a link came or went.
struct LinkChanged {};
struct Tick {};
struct StopRequested {};
using Event = std::variant<DesiredRead, DesiredUnusable, ImexStarted, ImexNotStarted, ImexExited, HostsWritten, HostsNotWritten,
                           StateAnswered, ReportAnswered, LinkChanged, Tick, StopRequested>;

// ---- actions, to be done in order
// Answered by HostsWritten or HostsNotWritten.
struct WriteHosts {
  std::string domain_name;
  std::vector<std::string> addresses;  // of every slot
  bool operator==(const WriteHosts&) const = default;
};
// What one life of nvidia-imex is bound to.
struct ImexSetup {
  fabric::DesiredDomain domain;
  fabric::DesiredConfig config;
  std::optional<fabric::DesiredTls> tls;
  bool operator==(const ImexSetup&) const = default;
};
// Writes node map, configuration and hosts, then starts nvidia-imex. Answered by ImexStarted or ImexNotStarted.
struct StartImex {
  ImexSetup setup;
  WriteHosts hosts;
};
struct SignalImex {
  int signal;
  std::string why;
};
struct AskImex {
  Question question;
  int own_index;
};
struct PublishStatus {
  fabric::DaemonStatus status;
};
struct Note {
  std::string text;
};
struct Exit {};
using Action = std::variant<WriteHosts, StartImex, SignalImex, AskImex, PublishStatus, Note, Exit>;

class Supervisor {
 public:
  static constexpr Duration kFirstBackoff{200};
  static constexpr Duration kLongestBackoff{5000};
  // An nvidia-imex that was READY this long is not in a crash loop.
  static constexpr Duration kProven{30000};
  static constexpr Duration kStopGrace{10000};
  static constexpr Duration kHostsRetry{1000};
  // Links are looked at for this long after a signal restarted them, connected or not.
  static constexpr Duration kSettle{2000};

  // `address` is the pod's IP: nvidia-imex binds to it and the own slot points to it.
  explicit Supervisor(std::string address);

  std::vector<Action> Step(const Event& event, SteadyTime now);
  // When the next Tick is due; empty: only another event changes anything.
  std::optional<SteadyTime> NextDeadline() const;
  const fabric::DaemonStatus& status() const { return status_; }

 private:
  // Phases hold what is valid in them only.
  struct Idle {};
  struct Waiting {
    SteadyTime until;
  };
  struct Starting {
    ImexSetup setup;
    std::vector<std::string> addresses;
  };
  struct Running {
    ImexSetup setup;
    std::vector<std::string> addresses;  // in the hosts file; empty: they could not be written
    ReconnectSignal reconnect;
    std::optional<SteadyTime> hosts_retry;
    std::optional<SteadyTime> ready_since;
    bool answered = false;  // once: its signal handlers stand, SIGUSR1 does not end it
    int failed_answers = 0;
    bool links_known = false;  // a report came after the last LinkChanged
  };
  struct Stopping {
    SteadyTime kill_at;
    bool killed = false;
  };
  struct Ended {};

  void On(const DesiredRead& event, SteadyTime now);
  void On(const DesiredUnusable& event, SteadyTime now);
  void On(const ImexStarted& event, SteadyTime now);
  void On(const ImexNotStarted& event, SteadyTime now);
  void On(const ImexExited& event, SteadyTime now);
  void On(const HostsWritten& event, SteadyTime now);
  void On(const HostsNotWritten& event, SteadyTime now);
  void On(const StateAnswered& event, SteadyTime now);
  void On(const ReportAnswered& event, SteadyTime now);
  void On(const LinkChanged& event, SteadyTime now);
  void On(const Tick&, SteadyTime) {}
  void On(const StopRequested& event, SteadyTime now);

  // What nvidia-imex shall run with; empty: it shall not run.
  std::optional<ImexSetup> Wanted() const;
  // Brings the phase in line with what is desired and what time it is.
  void Advance(SteadyTime now);
  void AdvanceRunning(Running& running, SteadyTime now);
  void UpdateAddresses(Running& running, SteadyTime now);
  std::string ReasonToStop(const ImexSetup& setup) const;
  void Start(ImexSetup setup);
  void StopImex(std::string why, SteadyTime now);
  void BackOff(SteadyTime now);
  void ResetStatus(const char* state);
  void SetPeers(int own_index);
  bool AllConnected() const;
  void Publish();

  std::string address_;
  fabric::Desired desired_;  // the last good one; before the first: do not run
  bool stop_requested_ = false;
  std::string desired_error_;
  std::string hosts_error_;
  std::string imex_error_;
  std::variant<Idle, Waiting, Starting, Running, Stopping, Ended> phase_;
  Duration backoff_ = kFirstBackoff;
  Inquiry inquiry_;
  fabric::DaemonStatus status_;
  std::optional<fabric::DaemonStatus> published_;
  std::vector<Action> actions_;  // of the step in progress
};

}  // namespace cd::daemon
