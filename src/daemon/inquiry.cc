#include "src/daemon/inquiry.h"

#include <algorithm>

namespace cd::daemon {

void Inquiry::Restart(SteadyTime now) {
  Stop();
  state_due_ = now + kStateUntilReady;
  refreshed_ = now;
}

void Inquiry::Stop() {
  if (flight_) flight_->stale = true;
  state_due_.reset();
  report_due_.reset();
  report_asked_.reset();
  report_failures_ = 0;
  ready_ = false;
}

Duration Inquiry::ReportPace(SteadyTime now) const {
  const Duration pace = now - refreshed_ < kInVainAfter ? kReport : kReportInVain;
  return std::max(pace, std::min(kReportInVain, kReport * (1 << std::min(report_failures_, 5))));
}

void Inquiry::WantReport(bool wanted, SteadyTime now) {
  if (!wanted) {
    report_due_.reset();
  } else if (!report_due_) {
    report_due_ = report_asked_ ? std::max(now, *report_asked_ + kReport) : now;
  }
}

void Inquiry::Refresh(SteadyTime now) {
  refreshed_ = now;
  if (report_due_ && report_asked_) report_due_ = std::min(*report_due_, std::max(now, *report_asked_ + ReportPace(now)));
}

std::optional<Question> Inquiry::TakeIfDue(SteadyTime now) {
  const auto due = NextDeadline();
  if (!due || now < *due) return std::nullopt;
  const bool state = state_due_ && *state_due_ <= now;
  flight_ = Flight{state ? Question::kState : Question::kReport, now};
  return flight_->question;
}

bool Inquiry::Answered(bool failed, bool ready, SteadyTime now) {
  if (!flight_) return false;
  const Flight flight = *flight_;
  flight_.reset();
  if (flight.stale) return false;
  ready_ = ready;
  if (flight.question == Question::kState) {
    state_due_ = std::max(now, flight.asked + (ready && !failed ? kStateWhenReady : kStateUntilReady));
  } else {
    report_failures_ = failed ? report_failures_ + 1 : 0;
    report_asked_ = flight.asked;
    if (report_due_) report_due_ = std::max(now, flight.asked + ReportPace(now));
  }
  return true;
}

std::optional<SteadyTime> Inquiry::NextDeadline() const {
  if (flight_) return std::nullopt;
  if (!ready_ || !report_due_) return state_due_;
  return state_due_ ? std::min(*state_due_, *report_due_) : report_due_;
}

}  // namespace cd::daemon
