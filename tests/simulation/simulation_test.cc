// The simulation as a test: many seeds without a violation, seeds that once showed one, and planted defects that must show.
#include "tests/simulation/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "src/base/log.h"

namespace cd::simulation {
namespace {

class SimulationTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Faults are what the processes complain of here.
    InitLog("simulation", static_cast<LogLevel>(static_cast<int>(LogLevel::kError) + 1), SystemClock());
  }
  static std::string Tail(const Outcome& outcome) {
    std::string text;
    const std::size_t from = outcome.trace.size() > 60 ? outcome.trace.size() - 60 : 0;
    for (std::size_t i = from; i < outcome.trace.size(); ++i) text += outcome.trace[i] + "\n";
    return text + outcome.state;
  }
};

// Sanitized code is some forty times slower; what it looks for shows in fewer steps. Whether the rules see a planted defect is
// asked of the plain build, which may look through many seeds for one that shows it; here each defect's own seed is run.
#if defined(CD_SIMULATION_SANITIZED)
constexpr bool kSanitized = true;
constexpr std::uint64_t kSteps = 60'000;
#else
constexpr bool kSanitized = false;
constexpr std::uint64_t kSteps = 1'000'000;
#endif

TEST_F(SimulationTest, a_million_steps_violate_no_rule) {
  std::uint64_t steps = 0;
  std::uint64_t processes = 0;
  for (std::uint64_t seed = 1; steps < kSteps; ++seed) {
    Options options{.seed = seed, .steps = 1'500, .bugs = {}};
    Outcome outcome = Simulation(options).Run();
    steps += outcome.steps;
    processes += outcome.containers;
    if (outcome.violation.empty()) continue;
    options.trace = true;
    ADD_FAILURE() << Tail(Simulation(options).Run()) << "\nsimulate --seed " << seed << " --steps 1500: " << outcome.violation;
    break;
  }
  // A simulation in which nothing runs proves nothing.
  EXPECT_GT(processes, steps / 1'000);
}

TEST_F(SimulationTest, the_same_seed_is_the_same_run) {
  const Options options{.seed = 8, .steps = 5'000, .bugs = {}, .trace = true};
  const Outcome first = Simulation(options).Run();
  const Outcome second = Simulation(options).Run();
  EXPECT_GT(first.trace.size(), 500u);
  EXPECT_EQ(first.trace, second.trace);
  EXPECT_EQ(first.state, second.state);
}

TEST_F(SimulationTest, watching_a_run_does_not_change_it) {
  Options options{.seed = 11, .steps = 1'500, .bugs = {}};
  const Outcome unseen = Simulation(options).Run();
  options.trace = true;
  EXPECT_EQ(Simulation(options).Run().steps, unseen.steps);
}

struct Planted {
  Bug bug;
  std::uint64_t seed;  // shows it; where the code has changed since, the next one that does is looked for
};

class PlantedDefectTest : public SimulationTest, public testing::WithParamInterface<Planted> {};

TEST_P(PlantedDefectTest, is_found) {
  constexpr std::uint64_t kSeeds = kSanitized ? 0 : 6'000;
  for (std::uint64_t tried = 0; tried <= kSeeds; ++tried) {
    Options options{.seed = tried == 0 ? GetParam().seed : tried, .steps = 1'500, .bugs = {GetParam().bug}};
    const Outcome outcome = Simulation(options).Run();
    if (outcome.violation.empty()) continue;
    options.bugs.clear();
    ASSERT_EQ(Simulation(options).Run().violation, "") << "seed " << options.seed << " fails without the defect as well";
    std::cout << "simulate --seed " << options.seed << " --steps 1500 --bug " << NameOf(GetParam().bug) << ": "
              << outcome.violation << "\n";
    return;
  }
  if (!kSanitized) ADD_FAILURE() << "no seed of " << kSeeds << " shows " << NameOf(GetParam().bug);
}

INSTANTIATE_TEST_SUITE_P(, PlantedDefectTest,
                         testing::Values(Planted{Bug::kSkipAnnounce, 323}, Planted{Bug::kStaleCheck, 253},
                                         Planted{Bug::kNoPrecondition, 295}, Planted{Bug::kStaleLook, 4},
                                         Planted{Bug::kForgetLingering, 49}, Planted{Bug::kSlotAtOnce, 54},
                                         Planted{Bug::kStaleLiveness, 26}, Planted{Bug::kForgetCheckpoint, 162},
                                         Planted{Bug::kReleaseAtOnce, 15}, Planted{Bug::kSickIsNone, 26},
                                         Planted{Bug::kStaleClaims, 3462}, Planted{Bug::kIgnoreMove, 491},
                                         Planted{Bug::kForgetIsolation, 33}),
                         [](const testing::TestParamInfo<Planted>& parameter) {
                           std::string name(NameOf(parameter.param.bug));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace cd::simulation
