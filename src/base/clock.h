// Time as a parameter. `std::chrono::*::now()` stands in clock.cc only.
#pragma once

#include <chrono>
#include <string>

namespace cd {

using Duration = std::chrono::milliseconds;
// Monotonic, for deadlines and waits.
using SteadyTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::milliseconds>;
// Wall clock, for what people and the API read; microseconds because Lease times carry six digits.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual SteadyTime Now() const = 0;
  virtual WallTime WallNow() const = 0;
};

// The machine's clocks; stateless and thread-safe.
const Clock& SystemClock();

// RFC 3339 in UTC, whole seconds ("2026-11-30T18:00:00Z"), as metav1.Time.
std::string FormatTime(WallTime time);
// RFC 3339 in UTC with six digits, as metav1.MicroTime.
std::string FormatMicroTime(WallTime time);

}  // namespace cd
