// When nvidia-imex gets SIGUSR1, which makes it resolve its peers' names anew and restart all its outgoing links.
//
// It takes at most one per 5 s and drops others silently, so signals are coalesced with a trailing edge: a change inside the
// interval is signalled at its end, never forgotten. While a live member stays unconnected the signal is repeated, each time
// after twice the wait, five times at most: a lost signal heals, a dead peer does not shake the links of the others for ever.
#pragma once

#include <optional>

#include "src/base/clock.h"

namespace cd::daemon {

class ReconnectSignal {
 public:
  // A little above nvidia-imex's own limit: its clock starts when the signal arrives.
  static constexpr Duration kInterval{5200};
  static constexpr Duration kFirstRepeat{10000};
  static constexpr int kRepeats = 5;

  // Somebody's address changed: a signal is owed.
  void Owe();
  // Every live member is connected: nothing is left to repeat.
  void Satisfy();
  // True when the signal must be sent now; it then counts as sent.
  bool TakeIfDue(SteadyTime now);

  bool owed() const { return owed_; }
  std::optional<SteadyTime> NextDeadline() const;
  std::optional<SteadyTime> last_sent() const { return last_sent_; }

 private:
  bool owed_ = false;
  std::optional<SteadyTime> last_sent_;
  std::optional<SteadyTime> repeat_at_;
  int repeats_ = 0;
};

}  // namespace cd::daemon
