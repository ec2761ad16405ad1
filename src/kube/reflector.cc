#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/json_text.h"
#include "src/base/log.h"
#include "src/kube/backoff.h"
#include "src/kube/informer.h"
#include "src/kube/list_watch.h"
#include "src/kube/status_error.h"

namespace cd::kube {

using nlohmann::json;

namespace {

constexpr Duration kListTimeout{60'000};
// The server ends a watch after a random time in this range, so that the watches of many clients do not end together.
constexpr Duration kShortestTimeout{300'000};
constexpr Duration kLongestTimeout{600'000};
// After the server's own timeout: a close that never arrived (half-open connection) is found by this.
constexpr Duration kIdleMargin{5'000};

const std::string& ResourceVersionOf(const json& object) {
  return TextOf(MemberOf(object, "metadata"), "resourceVersion");
}

// "0" would mean any state.
bool Names(const std::string& resource_version) {
  return !resource_version.empty() && resource_version != "0";
}

std::map<std::string, std::string> Selectors(const InformerOptions& options) {
  std::map<std::string, std::string> query;
  if (!options.label_selector.empty()) query["labelSelector"] = options.label_selector;
  if (!options.field_selector.empty()) query["fieldSelector"] = options.field_selector;
  return query;
}

}  // namespace

class Reflector::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(ApiClient& client, Executor& executor, InformerOptions options, Handlers handlers, std::uint64_t seed)
      : client_(client),
        executor_(executor),
        options_(std::move(options)),
        handlers_(std::move(handlers)),
        rng_(seed),
        backoff_(seed + 1) {}

  void Start() { Enter(list_watch::Begin(options_.fresh)); }

  void Stop() {
    stopped_ = true;
    stream_.reset();
    executor_.Cancel(timer_);
  }

 private:
  void Step(const list_watch::Input& input) { Enter(list_watch::Next(std::move(state_), input)); }

  void Enter(list_watch::Step step) {
    state_ = std::move(step.state);
    if (step.action == list_watch::Action::kNone) return;
    stream_.reset();
    switch (step.action) {
      case list_watch::Action::kList:
        return StartList(std::get<list_watch::Listing>(state_));
      case list_watch::Action::kWatch:
        return StartWatch(std::get<list_watch::Watching>(state_));
      case list_watch::Action::kPause:
        return StartPause();
      case list_watch::Action::kNone:
        return;
    }
  }

  void StartList(const list_watch::Listing& listing) {
    auto query = Selectors(options_);
    if (!listing.resource_version.empty()) query["resourceVersion"] = listing.resource_version;
    ApiRequest request = List(options_.type, options_.ns, std::move(query));
    request.timeout = kListTimeout;
    client_.Call(std::move(request), [weak = weak_from_this()](Result<json> list) {
      if (auto self = weak.lock(); self && !self->stopped_) self->OnList(std::move(list));
    });
  }

  void OnList(Result<json> list) {
    if (!list) {
      last_error_ = std::move(list.error());
      return Step(list_watch::ListFailed{last_error_});
    }
    // Without a version there is nothing a watch could start from: it would begin at a state of the server's choice.
    if (!Names(ResourceVersionOf(*list))) {
      last_error_ = {ErrorCode::kInternal, "the list has no resourceVersion"};
      return Step(list_watch::ListFailed{last_error_});
    }
    std::vector<const json*> items;
    for (const json& item : ArrayOf(*list, "items")) items.push_back(&item);
    Recovered();
    handlers_.replace(items, ResourceVersionOf(*list));
    if (!stopped_) Step(list_watch::Listed{ResourceVersionOf(*list)});
  }

  void StartWatch(const list_watch::Watching& watching) {
    const Duration timeout = rng_.Between(kShortestTimeout, kLongestTimeout);
    WatchRequest request{.type = options_.type, .ns = options_.ns, .query = Selectors(options_)};
    request.query["resourceVersion"] = watching.resource_version;
    request.query["allowWatchBookmarks"] = "true";
    request.query["timeoutSeconds"] = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count());
    request.idle_timeout = timeout + kIdleMargin;
    watch_start_ = executor_.clock().Now();
    stream_ = client_.Watch(
        std::move(request),
        [weak = weak_from_this()](std::string_view event) {
          if (auto self = weak.lock(); self && !self->stopped_) self->OnEvent(event);
        },
        [weak = weak_from_this()](Status end) {
          if (auto self = weak.lock(); self && !self->stopped_) self->OnEnd(std::move(end));
        });
  }

  void OnEvent(std::string_view text) {
    const json event = json::parse(text.begin(), text.end(), nullptr, false);
    const std::string& type = TextOf(event, "type");
    const json& object = MemberOf(event, "object");
    if (type.empty() || !object.is_object()) {
      return OnWatchFailed({ErrorCode::kInternal, "a watch event is not the JSON object it should be"});
    }
    if (type == "ERROR") return OnWatchFailed(StatusError(object, 200));
    const std::string& version = ResourceVersionOf(object);
    if (!Names(version)) return OnWatchFailed({ErrorCode::kInternal, "the object of a watch event has no resourceVersion"});
    Recovered();
    if (type == "ADDED") handlers_.change(ChangeType::kAdded, object);
    if (type == "MODIFIED") handlers_.change(ChangeType::kModified, object);
    if (type == "DELETED") handlers_.change(ChangeType::kDeleted, object);
    if (!stopped_) Step(list_watch::Event{version});
  }

  void OnEnd(Status end) {
    const Duration lived = executor_.clock().Now() - watch_start_;
    const bool lost = !end && (end.error().code == ErrorCode::kUnavailable || end.error().code == ErrorCode::kDeadlineExceeded);
    // A connection lost after it lived is like a normal end; a refusal is not.
    if (end || (lost && lived >= list_watch::kShortestWatch)) {
      last_error_ = end ? Error{ErrorCode::kUnavailable, "the watch ended at once, without an event"} : std::move(end.error());
      return Step(list_watch::WatchEnded{lived});
    }
    OnWatchFailed(std::move(end.error()));
  }

  void OnWatchFailed(Error error) {
    last_error_ = std::move(error);
    Step(list_watch::WatchFailed{last_error_});
  }

  void StartPause() {
    const Duration pause = backoff_.Next(last_error_, executor_.clock().Now());
    if (!std::exchange(failing_, true)) {
      LogWarning("watch interrupted", {{"resource", options_.type.plural}, {"error", last_error_.message}});
    }
    timer_ = executor_.PostAfter(pause, [weak = weak_from_this()] {
      if (auto self = weak.lock(); self && !self->stopped_) self->Step(list_watch::PauseOver{});
    });
  }

  void Recovered() {
    if (std::exchange(failing_, false)) LogInfo("watch works again", {{"resource", options_.type.plural}});
  }

  ApiClient& client_;
  Executor& executor_;
  const InformerOptions options_;
  const Handlers handlers_;
  Rng rng_;
  WatchBackoff backoff_;
  list_watch::State state_;
  std::unique_ptr<WatchStream> stream_;
  SteadyTime watch_start_{};
  TimerId timer_ = 0;
  Error last_error_;
  bool failing_ = false;  // logged once per outage
  bool stopped_ = false;
};

Reflector::Reflector(ApiClient& client, Executor& executor, InformerOptions options, Handlers handlers, std::uint64_t seed)
    : impl_(std::make_shared<Impl>(client, executor, std::move(options), std::move(handlers), seed)) {}

Reflector::~Reflector() {
  impl_->Stop();
}

void Reflector::Start() {
  impl_->Start();
}

}  // namespace cd::kube
