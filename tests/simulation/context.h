// What the parts of one simulated run share.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "tests/simulation/bugs.h"
#include "tests/simulation/dice.h"
#include "tests/simulation/network.h"
#include "tests/simulation/simulated_executor.h"
#include "tests/simulation/trace.h"

namespace cd::simulation {

// What the kernel driver makes on each node.
inline constexpr int kChannels = 4;

struct Context {
  explicit Context(std::uint64_t seed) : dice(seed) {}

  Dice dice;
  SimulatedClock clock;
  Trace trace{clock};
  ModelServer server{clock};
  Network network{server, dice, clock, trace};
  SimulatedExecutor environment{clock};  // timers of everything that is not this project's
  std::set<Bug> bugs;
  std::filesystem::path proc_devices;       // texts as the kernel driver shows them
  std::filesystem::path driver_parameters;  // with kChannels channels
  unsigned slow_disk = 0;                   // per mille of disk calls after which others may go on first
  std::string violation;                    // the first one; empty: none
  std::uint64_t next_pid = 100;
  std::uint64_t next_call = 1;
  std::uint64_t next_instance = 1;
  struct Gate {
    int min_nodes = 0;           // 0: nobody may be let go but by time
    bool fails = false;          // onTimeout Fail
    std::size_t most_nodes = 0;  // nodes with claims in use at one time, since there were none
    bool started = false;        // a process of this gang has
  };
  std::map<std::string, Gate> gates;  // of gated ComputeDomains, by UID
  // Indexes of the READY daemons that the node's own one is connected with.
  std::function<std::vector<int>(const std::string& node)> connected;
  bool daemons_changed = false;    // those connections may have
  std::set<std::string> optional;  // UIDs of ComputeDomains with fabricPolicy Optional, also of deleted ones
  std::set<std::string> single;    // the same with partitionPolicy Single
  int daemon_revision = 1;         // of the template of the daemons' pods
  bool holders_changed = false;    // processes or daemons came or went since the last check

  bool Has(Bug bug) const { return bugs.contains(bug); }
  void Violate(const std::string& rule, const std::string& what) {
    if (trace.on()) trace.Add("VIOLATION", rule, what);
    if (violation.empty()) violation = rule + ": " + what;
  }
};

}  // namespace cd::simulation
