// The life of one list-watch as a state machine: no clock, no thread, no client. Reflector drives it.
//
// Rules of the API it encodes: resourceVersion is opaque; the first list may come from the server's cache ("0"), a later one must
// be at least as new as what was seen, and only after "expired" a quorum read ("") is made, at once. The end of a watch is normal
// and costs no list. An outdated resourceVersion may also show as watches that end at once without any event (kubernetes#104171).
#pragma once

#include <string>
#include <variant>

#include "src/base/clock.h"
#include "src/base/result.h"

namespace cd::kube::list_watch {

// A list request is under way. `resource_version`: "0", the last seen one, or "".
struct Listing {
  std::string resource_version;
  bool operator==(const Listing&) const = default;
};

// A watch is open (or being opened) from `resource_version`, which came from a list or an event and is never empty or "0".
struct Watching {
  std::string resource_version;
  bool any_event = false;  // on this stream
  int failures = 0;        // streams in a row that brought no event and did not live
  bool quorum = false;     // resource_version is that of a quorum list and no event came since
  bool operator==(const Watching&) const = default;
};

// Waiting before `next` is entered.
struct Pausing {
  std::variant<Listing, Watching> next;
  bool operator==(const Pausing&) const = default;
};

using State = std::variant<Listing, Watching, Pausing>;

struct Listed {
  std::string resource_version;
};
struct ListFailed {
  Error error;
};
// ADDED, MODIFIED, DELETED or BOOKMARK.
struct Event {
  std::string resource_version;
};
// An ERROR event, an event that is no JSON, or the refusal of the watch request.
struct WatchFailed {
  Error error;
};
// The stream is over: closed by the server, lost, or silent for too long.
struct WatchEnded {
  Duration lived{0};
};
struct PauseOver {};

using Input = std::variant<Listed, ListFailed, Event, WatchFailed, WatchEnded, PauseOver>;

// What the driver does after a step.
enum class Action {
  kNone,   // keep the stream
  kList,   // start a list for the Listing state
  kWatch,  // drop the stream if there is one, start a watch for the Watching state
  kPause,  // drop the stream if there is one, wait for as long as the back-off says
};

struct Step {
  State state;
  Action action;
};

// A stream shorter than this without any event counts as a failure.
inline constexpr Duration kShortestWatch{1'000};
// Failed streams in a row after which the resourceVersion is no longer believed.
inline constexpr int kFailuresUntilRelist = 5;

// `fresh`: the first list is a quorum read as well.
inline Step Begin(bool fresh = false) {
  return {Listing{fresh ? "" : "0"}, Action::kList};
}
// An input that cannot occur in a state (a driver's defect) changes nothing.
Step Next(State state, const Input& input);

}  // namespace cd::kube::list_watch
