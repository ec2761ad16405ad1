#include "tests/simulation/network.h"

#include <algorithm>
#include <utility>

#include "src/kube/request_encoding.h"
#include "tests/simulation/fiber.h"

namespace cd::simulation {

using nlohmann::json;

namespace {

constexpr int kMaxTries = 4;
// Versions without an event of the watch.
constexpr std::uint64_t kBookmarkEvery = 200;

std::uint64_t VersionIn(const std::map<std::string, std::string>& query) {
  const auto it = query.find("resourceVersion");
  return it == query.end() ? 0 : std::stoull(it->second);
}

std::string Outcome(const Result<json>& answer) {
  if (!answer) return std::string(ToString(answer.error().code));
  if (!answer->contains("metadata")) return "done";
  return "version " + answer->at("metadata").value("resourceVersion", "?");
}

class Stream final : public kube::WatchStream {
 public:
  explicit Stream(std::shared_ptr<Watch> watch) : watch_(std::move(watch)) {}
  ~Stream() override { watch_->ended = true; }

 private:
  std::shared_ptr<Watch> watch_;
};

}  // namespace

void Client::Call(kube::ApiRequest request, Callback done) {
  if (corrupt_request) corrupt_request(request);
  Message message;
  message.client = this;
  message.sender = owner_;
  message.deadline = network_.clock_.Now() + request.timeout;
  if (network_.dice_.PerMille(network_.slow_messages)) message.speed = 8;
  message.request = std::move(request);
  if (!blocking || Fiber::Current() == nullptr) {
    message.done = std::move(done);
    network_.messages_.push_back(std::move(message));
    return;
  }
  // The fiber goes on when the answer is delivered; unwound before that, it hears nothing.
  const auto answer = std::make_shared<std::optional<Result<json>>>();
  message.done = [answer, fiber = Fiber::Current()](Result<json> result) {
    *answer = std::move(result);
    fiber->Resume();
  };
  network_.messages_.push_back(std::move(message));
  while (!answer->has_value()) Fiber::Yield();
  done(std::move(**answer));
}

std::unique_ptr<kube::WatchStream> Client::Watch(kube::WatchRequest request, EventHandler on_event, EndHandler on_end) {
  auto watch = std::make_shared<simulation::Watch>();
  watch->client = this;
  watch->selection = Selection::Of(request.type, request.ns, request.query);
  watch->version = VersionIn(request.query);
  watch->bookmarked = watch->version;
  const auto seconds = request.query.find("timeoutSeconds");
  watch->deadline = network_.clock_.Now() +
                    (seconds == request.query.end() ? Duration(300'000) : Duration(1'000 * std::stoll(seconds->second)));
  watch->request = std::move(request);
  watch->on_event = std::move(on_event);
  watch->on_end = std::move(on_end);
  watch->speed = network_.dice_.PerMille(250) ? 16 : 1024;
  if (late_watch == watch->selection.plural) watch->speed = 2;
  network_.watches_.push_back(watch);
  return std::make_unique<Stream>(std::move(watch));
}

bool Network::Ready(const Message& message) const {
  if (!message.answer) return true;
  return message.client == nullptr || !message.client->busy || !message.client->busy() || message.client->blocking;
}

bool Network::Ready(const Watch& watch) const {
  if (watch.ended) return true;
  if (watch.client->busy && !watch.client->blocking && watch.client->busy()) return false;
  if (outage || clock_.Now() >= watch.deadline || server_.Expired(watch.selection.plural, watch.version)) return true;
  if (watch.nothing_at == server_.version()) return false;
  std::uint64_t seen = 0;
  if (server_.Next(watch.selection, watch.version, seen) != nullptr) return true;
  if (server_.version() > watch.bookmarked + kBookmarkEvery) return true;
  watch.nothing_at = server_.version();
  return false;
}

void Network::Answer(Message& message, Result<json> answer) {
  if (trace_.on()) trace_.Add("api", kube::Describe(message.request) + " of " + message.sender, Outcome(answer));
  message.answer = std::move(answer);
}

void Network::Serve(Message& message) {
  ++message.tries;
  const bool may_repeat = message.request.safe_to_repeat && message.tries < kMaxTries;
  if (outage) {
    // The server is not there; a client that may ask again does so until its time is over.
    if (clock_.Now() < message.deadline && message.client != nullptr && dice_.PerMille(700)) return;
    return Answer(message, Fail(Error{ErrorCode::kUnavailable, "connection refused", std::nullopt, true}));
  }
  if (dice_.PerMille(faults.refused)) return Answer(message, Fail(ErrorCode::kUnavailable, "the server is in trouble"));
  if (dice_.PerMille(faults.lost_request)) {
    if (may_repeat) return;
    return Answer(message, Fail(ErrorCode::kUnavailable, "connection lost"));
  }
  auto answer = message.client != nullptr && message.client->corrupt_answer ? message.client->corrupt_answer(message.request)
                                                                            : std::nullopt;
  if (!answer) answer = server_.Handle(message.request);
  if (dice_.PerMille(faults.lost_answer)) {
    if (trace_.on())
      trace_.Add("api", kube::Describe(message.request) + " of " + message.sender, Outcome(*answer) + ", answer lost");
    if (may_repeat) return;
    message.answer = Fail(ErrorCode::kUnavailable, "connection lost");
    return;
  }
  Answer(message, *std::move(answer));
}

void Network::Step(std::list<Message>::iterator message) {
  const bool late = message->client != nullptr && !message->answer && clock_.Now() > message->deadline;
  if (late) {
    // The client gives up; what it sent may still be executed some day.
    if (trace_.on()) trace_.Add(message->sender, "gives up waiting for " + kube::Describe(message->request));
    Message ghost{nullptr, message->sender, message->request, nullptr, std::nullopt, message->deadline, 0, 64};
    if (dice_.PerMille(300)) messages_.push_back(std::move(ghost));
    message->answer = Fail(ErrorCode::kDeadlineExceeded, "no answer in time");
    if (!Ready(*message)) return;  // a process that stands at a disk call hears of it later
  } else if (!message->answer) {
    Serve(*message);
    if (message->client == nullptr) messages_.erase(message);
    return;
  }
  // What runs owns it: a process may stop in the middle, at a disk call.
  const auto taken = std::make_shared<Message>(std::move(*message));
  messages_.erase(message);
  if (taken->client == nullptr) return;
  if (taken->client->blocking) return taken->done(*taken->answer);
  taken->client->run([taken] { taken->done(*taken->answer); });
}

void Network::EndWatch(std::shared_ptr<Watch> watch, Status status) {
  watch->ended = true;
  std::erase(watches_, watch);
  watch->client->run([watch, status] { watch->on_end(status); });
}

void Network::Step(std::shared_ptr<Watch> watch) {
  if (watch->ended) {
    std::erase(watches_, watch);
    return;
  }
  if (outage) return EndWatch(watch, Fail(Error{ErrorCode::kUnavailable, "connection refused", std::nullopt, true}));
  if (server_.Expired(watch->selection.plural, watch->version)) {
    return EndWatch(watch, Fail(ErrorCode::kExpired, "too old resource version"));
  }
  if (clock_.Now() >= watch->deadline || dice_.PerMille(faults.watch_end)) return EndWatch(watch, {});
  if (dice_.PerMille(faults.watch_lost)) return EndWatch(watch, Fail(ErrorCode::kUnavailable, "connection lost"));
  std::uint64_t seen = 0;
  const HistoryEvent* event = server_.Next(watch->selection, watch->version, seen);
  watch->version = seen;
  if (event == nullptr) {
    watch->bookmarked = seen;
    const json bookmark{{"type", "BOOKMARK"}, {"object", {{"metadata", {{"resourceVersion", std::to_string(seen)}}}}}};
    watch->client->run([watch, text = bookmark.dump()] { watch->on_event(text); });
    return;
  }
  watch->bookmarked = seen;
  if (trace_.on()) {
    trace_.Add(watch->client->owner(), std::string("sees ") + event->type + " " + watch->selection.plural + " " + event->key.name,
               "version " + std::to_string(event->version));
  }
  std::string text = event->Text();
  if (watch->client->corrupt_event) watch->client->corrupt_event(text);
  watch->client->run([watch, text = std::move(text)] { watch->on_event(text); });
}

void Network::Forget(Client* client) {
  for (auto it = messages_.begin(); it != messages_.end();) {
    if (it->client == client) {
      it->client = nullptr;
      it->done = nullptr;
      if (it->answer) {
        it = messages_.erase(it);
        continue;
      }
    }
    ++it;
  }
  std::erase_if(watches_, [&](const auto& watch) { return watch->client == client; });
}

std::optional<SteadyTime> Network::NextDeadline() const {
  std::optional<SteadyTime> next;
  for (const auto& watch : watches_) {
    if (!watch->ended && (!next || watch->deadline < *next)) next = watch->deadline;
  }
  return next;
}

}  // namespace cd::simulation
