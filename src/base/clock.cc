#include "src/base/clock.h"

#include <fmt/format.h>

namespace cd {
namespace {

class MachineClock final : public Clock {
 public:
  SteadyTime Now() const override { return std::chrono::time_point_cast<SteadyTime::duration>(std::chrono::steady_clock::now()); }
  WallTime WallNow() const override { return std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now()); }
};

std::string Format(WallTime time, bool micro) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(floor<microseconds>(time - day));
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                  static_cast<unsigned>(date.day()), clock.hours().count(), clock.minutes().count(), clock.seconds().count());
  if (micro) text += fmt::format(".{:06}", clock.subseconds().count());
  return text + "Z";
}

}  // namespace

const Clock& SystemClock() {
  static const MachineClock clock;
  return clock;
}

std::string FormatTime(WallTime time) {
  return Format(time, false);
}
std::string FormatMicroTime(WallTime time) {
  return Format(time, true);
}

}  // namespace cd
