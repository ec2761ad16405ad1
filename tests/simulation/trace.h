// What happened, for people: step, virtual time, actor, action, object.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/simulation/simulated_executor.h"

namespace cd::simulation {

class Trace {
 public:
  explicit Trace(const SimulatedClock& clock) : clock_(clock) {}

  // Nothing is kept, and nothing need be composed, while it is off.
  bool on() const { return on_; }
  void TurnOn(bool echo) {
    on_ = true;
    echo_ = echo;
  }
  void NextStep() { ++step_; }
  std::uint64_t step() const { return step_; }

  void Add(const std::string& actor, const std::string& action, const std::string& object = "") {
    if (!on_) return;
    const double seconds = static_cast<double>((clock_.Now().time_since_epoch()).count()) / 1000.0 - 3600.0;
    char head[48];
    std::snprintf(head, sizeof head, "%6llu %10.3f s  ", static_cast<unsigned long long>(step_), seconds);
    std::string line = head + actor + std::string(actor.size() < 14 ? 14 - actor.size() : 1, ' ') + action;
    if (!object.empty()) line += "  " + object;
    if (echo_) std::fprintf(stderr, "%s\n", line.c_str());
    lines_.push_back(std::move(line));
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  const SimulatedClock& clock_;
  bool on_ = false;
  bool echo_ = false;
  std::uint64_t step_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace cd::simulation
