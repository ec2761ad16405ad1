#include "src/kube/list_watch.h"

#include <utility>

namespace cd::kube::list_watch {
namespace {

Step Pause(std::variant<Listing, Watching> next) {
  return {Pausing{std::move(next)}, Action::kPause};
}

Step OnListed(const Listing& listing, const Listed& listed) {
  return {Watching{.resource_version = listed.resource_version, .quorum = listing.resource_version.empty()}, Action::kWatch};
}

Step OnListFailed(Listing listing, const Error& error) {
  // Only a list that named a version can be too old or too new; a quorum read that says so is just broken.
  if (error.code == ErrorCode::kExpired && !listing.resource_version.empty()) return {Listing{""}, Action::kList};
  return Pause(std::move(listing));
}

Step OnEvent(const Event& event) {
  return {Watching{.resource_version = event.resource_version, .any_event = true}, Action::kNone};
}

Step Retry(Watching watching) {
  if (++watching.failures >= kFailuresUntilRelist) return Pause(Listing{""});
  watching.any_event = false;
  return Pause(std::move(watching));
}

Step OnWatchFailed(Watching watching, const Error& error) {
  switch (error.code) {
    case ErrorCode::kExpired:
      // Expired right after a quorum list would be a busy loop.
      if (watching.quorum) return Pause(Listing{""});
      return {Listing{""}, Action::kList};
    case ErrorCode::kTooManyRequests:
    case ErrorCode::kUnauthorized:
    case ErrorCode::kForbidden:
      // Says nothing about the resourceVersion: keep it for as long as this takes.
      watching.any_event = false;
      return Pause(std::move(watching));
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
      if (error.not_sent) {
        watching.any_event = false;
        return Pause(std::move(watching));
      }
      return Retry(std::move(watching));
    default:
      return Pause(Listing{std::move(watching.resource_version)});
  }
}

Step OnWatchEnded(Watching watching, const WatchEnded& ended) {
  if (!watching.any_event && ended.lived < kShortestWatch) return Retry(std::move(watching));
  watching.any_event = false;
  watching.failures = 0;
  return {std::move(watching), Action::kWatch};
}

Step OnPauseOver(Pausing pausing) {
  if (auto* listing = std::get_if<Listing>(&pausing.next)) return {std::move(*listing), Action::kList};
  return {std::get<Watching>(std::move(pausing.next)), Action::kWatch};
}

}  // namespace

Step Next(State state, const Input& input) {
  if (auto* listing = std::get_if<Listing>(&state)) {
    if (auto* listed = std::get_if<Listed>(&input)) return OnListed(*listing, *listed);
    if (auto* failed = std::get_if<ListFailed>(&input)) return OnListFailed(std::move(*listing), failed->error);
  } else if (auto* watching = std::get_if<Watching>(&state)) {
    if (auto* event = std::get_if<Event>(&input)) return OnEvent(*event);
    if (auto* failed = std::get_if<WatchFailed>(&input)) return OnWatchFailed(std::move(*watching), failed->error);
    if (auto* ended = std::get_if<WatchEnded>(&input)) return OnWatchEnded(std::move(*watching), *ended);
  } else if (std::holds_alternative<PauseOver>(input)) {
    return OnPauseOver(std::get<Pausing>(std::move(state)));
  }
  return {std::move(state), Action::kNone};
}

}  // namespace cd::kube::list_watch
