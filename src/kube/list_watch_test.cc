#include "src/kube/list_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace cd::kube::list_watch {
namespace {

Error Failure(ErrorCode code) {
  return {code, "x"};
}
Error Refused() {
  Error error{ErrorCode::kUnavailable, "x"};
  error.not_sent = true;
  return error;
}
Watching At(std::string rv) {
  return {.resource_version = std::move(rv)};
}

struct Case {
  const char* name;
  State state;
  Input input;
  State next;
  Action action;
};

const std::vector<Case> kCases{
    {"first list may come from the cache", Listing{"0"}, Listed{"7"}, At("7"), Action::kWatch},
    {"quorum list is remembered until the first event", Listing{""}, Listed{"7"},
     Watching{.resource_version = "7", .quorum = true}, Action::kWatch},
    {"expired list is read anew at once", Listing{"5"}, ListFailed{Failure(ErrorCode::kExpired)}, Listing{""}, Action::kList},
    {"expired quorum list waits", Listing{""}, ListFailed{Failure(ErrorCode::kExpired)}, Pausing{Listing{""}}, Action::kPause},
    {"failed list waits and keeps its version", Listing{"5"}, ListFailed{Failure(ErrorCode::kUnavailable)}, Pausing{Listing{"5"}},
     Action::kPause},
    {"forbidden list waits", Listing{"0"}, ListFailed{Failure(ErrorCode::kForbidden)}, Pausing{Listing{"0"}}, Action::kPause},
    {"event advances the version", At("7"), Event{"8"}, Watching{.resource_version = "8", .any_event = true}, Action::kNone},
    {"event ends doubt", Watching{.resource_version = "7", .failures = 3, .quorum = true}, Event{"8"},
     Watching{.resource_version = "8", .any_event = true}, Action::kNone},
    {"normal end watches on without list", Watching{.resource_version = "8", .any_event = true}, WatchEnded{Duration(10)},
     At("8"), Action::kWatch},
    {"quiet but long watch is normal", At("8"), WatchEnded{Duration(300'000)}, At("8"), Action::kWatch},
    {"short watch without event is a failure", At("8"), WatchEnded{Duration(10)},
     Pausing{Watching{.resource_version = "8", .failures = 1}}, Action::kPause},
    {"too many short watches make a quorum list", Watching{.resource_version = "8", .failures = kFailuresUntilRelist - 1},
     WatchEnded{Duration(10)}, Pausing{Listing{""}}, Action::kPause},
    {"expired watch lists at once", Watching{.resource_version = "8", .any_event = true},
     WatchFailed{Failure(ErrorCode::kExpired)}, Listing{""}, Action::kList},
    {"watch expired right after a quorum list waits", Watching{.resource_version = "8", .quorum = true},
     WatchFailed{Failure(ErrorCode::kExpired)}, Pausing{Listing{""}}, Action::kPause},
    {"throttled watch waits and keeps its version", At("8"), WatchFailed{Failure(ErrorCode::kTooManyRequests)}, Pausing{At("8")},
     Action::kPause},
    {"forbidden watch keeps its version for as long as it takes", Watching{.resource_version = "8", .failures = 4},
     WatchFailed{Failure(ErrorCode::kForbidden)}, Pausing{Watching{.resource_version = "8", .failures = 4}}, Action::kPause},
    {"outage never costs the version", Watching{.resource_version = "8", .failures = 4}, WatchFailed{Refused()},
     Pausing{Watching{.resource_version = "8", .failures = 4}}, Action::kPause},
    {"server error is retried", At("8"), WatchFailed{Failure(ErrorCode::kUnavailable)},
     Pausing{Watching{.resource_version = "8", .failures = 1}}, Action::kPause},
    {"server errors without end make a list", Watching{.resource_version = "8", .failures = kFailuresUntilRelist - 1},
     WatchFailed{Failure(ErrorCode::kUnavailable)}, Pausing{Listing{""}}, Action::kPause},
    {"unreadable event makes a list", At("8"), WatchFailed{Failure(ErrorCode::kInternal)}, Pausing{Listing{"8"}}, Action::kPause},
    {"pause leads to the list", Pausing{Listing{""}}, PauseOver{}, Listing{""}, Action::kList},
    {"pause leads to the watch", Pausing{At("8")}, PauseOver{}, At("8"), Action::kWatch},
    {"stray input changes nothing", Pausing{At("8")}, Event{"9"}, Pausing{At("8")}, Action::kNone},
    {"stray pause changes nothing", At("8"), PauseOver{}, At("8"), Action::kNone},
    {"stray list changes nothing", At("8"), Listed{"9"}, At("8"), Action::kNone},
};

class Steps : public testing::TestWithParam<Case> {};

TEST_P(Steps, leads_to) {
  const Case& c = GetParam();
  const Step step = Next(c.state, c.input);
  EXPECT_TRUE(step.state == c.next) << c.name;
  EXPECT_EQ(step.action, c.action) << c.name;
}

INSTANTIATE_TEST_SUITE_P(ListWatch, Steps, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
});

TEST(ListWatch, begins_with_a_list_from_the_cache) {
  EXPECT_TRUE(Begin().state == State(Listing{"0"}));
  EXPECT_EQ(Begin().action, Action::kList);
}

}  // namespace
}  // namespace cd::kube::list_watch
