// When nvidia-imex-ctl is asked what. One call at a time: a call that hangs (seen with -N) must not pile up others.
//
//   state  (-q)     every 100 ms until READY, then every 5 s
//   report (-N -j)  only while it is wanted: every 250 ms, every 5 s once it was in vain for a minute (a dead member may stay
//                   listed for a quarter of an hour), and ever slower up to 5 s while the call itself fails
#pragma once

#include <optional>

#include "src/base/clock.h"

namespace cd::daemon {

enum class Question { kState, kReport };

class Inquiry {
 public:
  static constexpr Duration kStateUntilReady{100};
  static constexpr Duration kStateWhenReady{5000};
  static constexpr Duration kReport{250};
  static constexpr Duration kReportInVain{5000};
  static constexpr Duration kInVainAfter{60000};

  // A new nvidia-imex runs; an answer still to come concerns the old one.
  void Restart(SteadyTime now);
  void Stop();

  // The report is wanted as long as this was last called with true.
  void WantReport(bool wanted, SteadyTime now);
  // Something happened that may change the links: ask at full pace again.
  void Refresh(SteadyTime now);

  // The question to ask now, if any; it is then in flight until Answered.
  std::optional<Question> TakeIfDue(SteadyTime now);
  // The call in flight ended; `ready`: the last known state is READY. False: the answer is out of date, forget it.
  bool Answered(bool failed, bool ready, SteadyTime now);

  std::optional<SteadyTime> NextDeadline() const;

 private:
  struct Flight {
    Question question;
    SteadyTime asked;
    bool stale = false;
  };
  Duration ReportPace(SteadyTime now) const;

  std::optional<Flight> flight_;
  std::optional<SteadyTime> state_due_;
  std::optional<SteadyTime> report_due_;
  std::optional<SteadyTime> report_asked_;
  SteadyTime refreshed_{};
  int report_failures_ = 0;
  bool ready_ = false;
};

}  // namespace cd::daemon
