#include "src/daemon/reconnect_signal.h"

namespace cd::daemon {

void ReconnectSignal::Owe() {
  owed_ = true;
  repeat_at_.reset();
}

void ReconnectSignal::Satisfy() {
  repeat_at_.reset();
}

bool ReconnectSignal::TakeIfDue(SteadyTime now) {
  const auto due = NextDeadline();
  if (!due || now < *due) return false;
  repeats_ = owed_ ? 0 : repeats_ + 1;
  owed_ = false;
  last_sent_ = now;
  repeat_at_.reset();
  if (repeats_ < kRepeats) repeat_at_ = now + kFirstRepeat * (1 << repeats_);
  return true;
}

std::optional<SteadyTime> ReconnectSignal::NextDeadline() const {
  if (owed_) return last_sent_ ? *last_sent_ + kInterval : SteadyTime{};
  return repeat_at_;
}

}  // namespace cd::daemon
