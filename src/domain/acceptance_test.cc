#include "src/domain/acceptance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "src/domain/testing.h"

namespace cd::domain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(AcceptanceTest, default_spec_is_accepted) {
  EXPECT_EQ(WhyNotAccepted(testing::Red()), std::nullopt);
}

TEST(AcceptanceTest, exclusive_domain_with_all_channels_and_options_is_accepted) {
  api::ComputeDomain cd = testing::Red();
  cd.isolation_mode = api::IsolationMode::kDomain;
  cd.allocation_mode = api::AllocationMode::kAll;
  cd.imex = api::ImexConfig{"RECOVERY", 60, 3};
  EXPECT_EQ(WhyNotAccepted(cd), std::nullopt);
}

struct RefusedCase {
  const char* name;
  std::function<void(api::ComputeDomain&)> change;
  const char* field;
  const char* value;
  const char* remedy;
};

class RefusedTest : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(RefusedTest, names_field_value_and_remedy) {
  api::ComputeDomain cd = testing::Red();
  GetParam().change(cd);
  const auto why = WhyNotAccepted(cd);
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, AllOf(HasSubstr(GetParam().field), HasSubstr(GetParam().value), HasSubstr(GetParam().remedy)));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RefusedTest,
    ::testing::Values(RefusedCase{"allocation", [](auto& cd) { cd.allocation_mode = api::AllocationMode::kAll; },
                                  "spec.channel.allocationMode", "All", "needs spec.isolationMode Domain; use that, or Single"},
                      RefusedCase{"imex", [](auto& cd) { cd.imex = api::ImexConfig{}; },
                                  "spec.imex: needs spec.isolationMode Domain", "shared", "isolationMode Domain"},
                      RefusedCase{"quorum",
                                  [](auto& cd) {
                                    cd.isolation_mode = api::IsolationMode::kDomain;
                                    cd.imex = api::ImexConfig{"FULL", {}, {}};
                                  },
                                  "spec.imex.waitForQuorum", "FULL waits for every line of the node map",
                                  "use NONE or RECOVERY"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(AcceptanceTest, all_refused_fields_are_named_at_once) {
  api::ComputeDomain cd = testing::Red();
  cd.allocation_mode = api::AllocationMode::kAll;
  cd.imex = api::ImexConfig{};
  EXPECT_THAT(WhyNotAccepted(cd).value_or(""), AllOf(HasSubstr("allocationMode"), HasSubstr("spec.imex")));
}

}  // namespace
}  // namespace cd::domain
