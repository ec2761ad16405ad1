#include "src/domain/imex_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cd::domain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ImexOptionsTest, a_compute_domain_overrides_what_it_names_and_nothing_else) {
  const api::ImexConfig cluster{"NONE", -1, 3};
  EXPECT_EQ(OptionsOver(cluster, std::nullopt), cluster);
  EXPECT_EQ(OptionsOver(cluster, api::ImexConfig{"", 60, {}}), (api::ImexConfig{"NONE", 60, 3}));
  EXPECT_EQ(OptionsOver(cluster, api::ImexConfig{"RECOVERY", {}, 0}), (api::ImexConfig{"RECOVERY", -1, 0}));
}

TEST(ImexOptionsTest, what_is_not_said_is_the_default) {
  EXPECT_TRUE(SameOptions({}, {"NONE", -1, 4}));
  EXPECT_FALSE(SameOptions({}, {"NONE", 0, 4}));
}

TEST(ImexOptionsTest, waiting_for_every_line_of_a_map_with_spare_lines_is_not_possible) {
  EXPECT_THAT(WhyNotPossible({"FULL", {}, {}}, "spec.imex").value_or(""), HasSubstr("spec.imex.waitForQuorum: FULL"));
  EXPECT_EQ(WhyNotPossible({"RECOVERY", 0, 0}, "spec.imex"), std::nullopt);
}

TEST(ImexOptionsTest, what_an_old_driver_does_not_know_is_named_with_its_value) {
  const auto unknown = UnknownToDriver({"RECOVERY", 60, 2}, "565.57.01");
  ASSERT_TRUE(unknown);
  EXPECT_THAT(*unknown,
              AllOf(HasSubstr("waitForQuorum: RECOVERY"), HasSubstr("nodeDisconnectedGraceSeconds: 60"), HasSubstr("570")));
  EXPECT_THAT(*unknown, Not(HasSubstr("logLevel")));
}

TEST(ImexOptionsTest, drivers_that_know_the_options_and_unreadable_versions_refuse_nothing) {
  for (const char* version : {"570.158.01", "580.105.08", "", "NO_GPU"}) {
    EXPECT_EQ(UnknownToDriver({"RECOVERY", 60, 2}, version), std::nullopt) << version;
  }
}

TEST(ImexOptionsTest, defaults_ask_nothing_of_a_driver) {
  EXPECT_EQ(UnknownToDriver({"NONE", -1, 4}, "550.54.14"), std::nullopt);
  EXPECT_EQ(UnknownToDriver({}, "550.54.14"), std::nullopt);
}

}  // namespace
}  // namespace cd::domain
