// compute-domain-simulation: runs seeds, or one seed with its trace.
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "src/base/log.h"
#include "tests/simulation/simulation.h"

namespace {

using cd::simulation::Bug;
using cd::simulation::Options;
using cd::simulation::Outcome;
using cd::simulation::Simulation;

void PrintFailure(Options options, const Outcome& outcome, std::size_t lines) {
  options.trace = true;
  const Outcome again = Simulation(options).Run();
  const std::size_t from = again.trace.size() > lines ? again.trace.size() - lines : 0;
  for (std::size_t i = from; i < again.trace.size(); ++i) std::printf("%s\n", again.trace[i].c_str());
  std::printf("%s", again.state.c_str());
  std::printf("seed %llu violates %s\n", static_cast<unsigned long long>(options.seed), outcome.violation.c_str());
  if (again.violation != outcome.violation) std::printf("NOT REPRODUCED: the second run says \"%s\"\n", again.violation.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Simulates controller, plugins, kubelets and an API server under faults, and checks the rules after every step.");
  Options options;
  std::uint64_t first = 1;
  std::uint64_t seeds = 100;
  std::uint64_t one = 0;
  std::size_t lines = 60;
  bool stop = false;
  bool logs = false;
  std::vector<std::string> bugs;
  app.add_option("--seed", one, "This seed alone");
  app.add_option("--first", first, "First seed")->capture_default_str();
  app.add_option("--seeds", seeds, "Number of seeds")->capture_default_str();
  app.add_option("--steps", options.steps, "Steps with faults in each run")->capture_default_str();
  app.add_option("--lines", lines, "Lines of the trace of a failing seed")->capture_default_str();
  app.add_option("--gated", options.gated, "ComputeDomains with gating, per mille")->capture_default_str();
  app.add_option("--bug", bugs, "Plant a defect");
  app.add_flag("--trace", options.echo, "Print every step");
  app.add_flag("--logs", logs, "Print what the processes log");
  app.add_flag("--stop", stop, "Stop at the first violation");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& name : bugs) {
    for (const auto& [bug, text] : cd::simulation::kBugs) {
      if (text == name) options.bugs.insert(bug);
    }
  }
  const auto off = static_cast<cd::LogLevel>(static_cast<int>(cd::LogLevel::kError) + 1);
  cd::InitLog("simulation", logs ? cd::LogLevel::kInfo : off, cd::SystemClock());
  options.trace = options.echo;
  if (one != 0) {
    first = one;
    seeds = 1;
  }
  std::uint64_t steps = 0;
  std::uint64_t containers = 0;
  std::uint64_t formations = 0;
  std::uint64_t violations = 0;
  std::map<std::string, int> kinds;
  const cd::SteadyTime began = cd::SystemClock().Now();
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    options.seed = seed;
    const Outcome outcome = Simulation(options).Run();
    steps += outcome.steps;
    containers += outcome.containers;
    formations += outcome.formations;
    if (outcome.violation.empty()) continue;
    ++kinds[outcome.violation.substr(0, outcome.violation.find(':'))];
    if (violations++ == 0 || seeds == 1) {
      PrintFailure(options, outcome, lines);
    } else {
      std::printf("seed %llu violates %s\n", static_cast<unsigned long long>(seed), outcome.violation.c_str());
    }
    std::fflush(stdout);
    if (stop) break;
  }
  const auto took = static_cast<double>((cd::SystemClock().Now() - began).count()) / 1000.0;
  std::printf(
      "%llu steps in %llu seeds, %llu processes started, %llu gangs formed, %.1f s, %.0f steps per second, %llu violations\n",
      static_cast<unsigned long long>(steps), static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(containers),
      static_cast<unsigned long long>(formations), took, static_cast<double>(steps) / std::max(took, 0.001),
      static_cast<unsigned long long>(violations));
  return violations == 0 ? 0 : 1;
}
