#include "src/kube/rest_client.h"

#include <malloc.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "src/base/json_text.h"
#include "src/base/log.h"
#include "src/base/rng.h"
#include "src/kube/frame_splitter.h"
#include "src/kube/request_encoding.h"
#include "src/kube/status_error.h"
#include "src/kube/token_source.h"

namespace cd::kube {

using nlohmann::json;

namespace {

constexpr int kMaxTries = 10;
constexpr int kMaxParallelCalls = 8;
constexpr Duration kFirstRetry{100};
constexpr Duration kLongestRetry{1'000};
constexpr char kPageSize[] = "500";
constexpr std::size_t kLargestAnswer = 64 << 20;
constexpr std::size_t kLargestEvent = 4 << 20;
// Above this the allocator is asked to give the freed pages back: a list is big once, the budget of the process is small.
constexpr std::size_t kTrimAbove = 1 << 20;

// One call from Call() to its answer, over all its tries and pages.
struct PendingCall {
  ApiRequest request;
  ApiClient::Callback done;
  SteadyTime deadline;
  std::string token;  // of the try under way
  int tries = 0;
  bool answered = false;  // the last try got an answer of whatever kind
  bool token_retried = false;
  bool unpaged = false;        // a continue token expired: everything in one answer
  json items = json::array();  // of the pages so far
  std::unique_ptr<HttpTransfer> transfer;
};

bool Paged(const PendingCall& call) {
  return call.request.query.contains("continue");
}

Error ErrorOf(const HttpResponse& answer) {
  Error error = AnswerError(answer.body, answer.status);
  if (answer.retry_after) error.retry_after = answer.retry_after;
  return error;
}

// A JSON patch that cannot be applied is answered by a bare 422, whichever operation failed. When it began with a `test` that is
// what failed, as far as a caller can act on it: the object is not what it thought.
Error PatchErrorOf(const HttpResponse& answer, const ApiRequest& request) {
  Error error = ErrorOf(answer);
  const bool tested = request.verb == Verb::kPatch && request.patch_type == PatchType::kJson && request.safe_to_repeat;
  if (!tested || answer.status != 422 || HasCauses(answer.body)) return error;
  return Annotate(Error{ErrorCode::kConflict, std::move(error.message)}, "the object is not as the patch's test says");
}

}  // namespace

class RestClient::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(EventLoop& loop, ClientConfig config, std::string user_agent, std::uint64_t seed)
      : loop_(loop),
        server_(std::move(config.server)),
        tokens_(loop.clock(), std::move(config.token), std::move(config.token_file)),
        rng_(seed),
        engine_(loop, std::move(config.tls), std::move(user_agent)) {}

  void Enqueue(ApiRequest request, Callback done);
  std::unique_ptr<WatchStream> Watch(const WatchRequest& request, EventHandler on_event, EndHandler on_end);

 private:
  class Stream;

  void StartWaiting();
  void Try(PendingCall& call);
  void OnAnswer(PendingCall& call, Result<HttpResponse> answer);
  void OnPage(PendingCall& call, json page);
  void OnError(PendingCall& call, Error error);
  std::optional<Duration> RetryDelay(PendingCall& call, const Error& error);
  void Finish(PendingCall& call, Result<json> result);
  void LogWarnings(const HttpResponse& response);

  EventLoop& loop_;
  const std::string server_;
  TokenSource tokens_;
  Rng rng_;
  std::set<std::string> warned_;
  HttpEngine engine_;  // after what its transfers use
  std::map<PendingCall*, std::unique_ptr<PendingCall>> calls_;
  std::deque<PendingCall*> waiting_;
  int running_ = 0;
};

void RestClient::Impl::Enqueue(ApiRequest request, Callback done) {
  auto call = std::make_unique<PendingCall>();
  call->deadline = loop_.clock().Now() + request.timeout;
  call->request = std::move(request);
  call->done = std::move(done);
  const bool list = call->request.verb == Verb::kList;
  // A list with a resourceVersion is served whole from the server's watch cache; asking for pages would send it to etcd.
  if (list && !call->request.query.contains("resourceVersion")) call->request.query.emplace("limit", kPageSize);
  waiting_.push_back(call.get());
  calls_.emplace(call.get(), std::move(call));
  StartWaiting();
}

void RestClient::Impl::StartWaiting() {
  while (running_ < kMaxParallelCalls && !waiting_.empty()) {
    PendingCall& call = *waiting_.front();
    waiting_.pop_front();
    ++running_;
    Try(call);
  }
}

void RestClient::Impl::Try(PendingCall& call) {
  ++call.tries;
  call.token = tokens_.Current();
  HttpRequest http = Encode(call.request, server_, call.token);
  http.timeout = std::max(call.deadline - loop_.clock().Now(), Duration(1));
  http.largest_answer = kLargestAnswer;
  call.transfer =
      engine_.Start(std::move(http), {.done = [this, &call](Result<HttpResponse> answer) { OnAnswer(call, std::move(answer)); }});
}

void RestClient::Impl::OnAnswer(PendingCall& call, Result<HttpResponse> answer) {
  call.transfer.reset();
  call.answered = answer.has_value();
  if (!answer) return OnError(call, std::move(answer.error()));
  LogWarnings(*answer);
  if (answer->status >= 300) {
    return OnError(call, PatchErrorOf(*answer, call.request));
  }
  const std::size_t size = answer->body.size();
  json body = json::parse(answer->body, nullptr, false);
  answer->body = std::string();
  if (body.is_discarded()) return OnError(call, {ErrorCode::kInternal, "the answer is not JSON"});
  if (call.request.verb == Verb::kList) {
    OnPage(call, std::move(body));
  } else {
    Finish(call, std::move(body));
  }
  if (size > kTrimAbove) ::malloc_trim(0);
}

void RestClient::Impl::OnPage(PendingCall& call, json page) {
  if (!page.is_object() || !page["metadata"].is_object())
    return OnError(call, {ErrorCode::kInternal, "the answer is not a list"});
  json& items = page["items"];
  if (!items.is_array()) items = json::array();
  const std::string next = TextOf(page["metadata"], "continue");
  if (!next.empty() || Paged(call)) {
    for (json& item : items) call.items.push_back(std::move(item));
    items = json::array();
  }
  if (!next.empty()) {
    call.request.query["continue"] = next;
    call.tries = 0;
    return Try(call);
  }
  if (Paged(call)) items = std::move(call.items);
  Finish(call, std::move(page));
}

void RestClient::Impl::OnError(PendingCall& call, Error error) {
  if (error.code == ErrorCode::kExpired && Paged(call) && !call.unpaged) {
    call.unpaged = true;
    call.items = json::array();
    call.request.query.erase("continue");
    call.request.query.erase("limit");
    return Try(call);
  }
  const auto delay = RetryDelay(call, error);
  if (!delay) return Finish(call, Fail(Annotate(std::move(error), Describe(call.request))));
  --running_;
  loop_.PostAfter(*delay, [weak = weak_from_this(), &call] {
    auto self = weak.lock();
    if (!self) return;
    self->waiting_.push_front(&call);
    self->StartWaiting();
  });
  StartWaiting();
}

std::optional<Duration> RestClient::Impl::RetryDelay(PendingCall& call, const Error& error) {
  if (call.tries >= kMaxTries) return std::nullopt;
  if (error.code == ErrorCode::kUnauthorized) {
    if (std::exchange(call.token_retried, true) || !tokens_.Refused(call.token)) return std::nullopt;
    return Duration(0);
  }
  const bool asked = error.retry_after && (error.code == ErrorCode::kTooManyRequests || error.code == ErrorCode::kUnavailable);
  const bool lost = !call.answered && error.code == ErrorCode::kUnavailable && call.request.safe_to_repeat;
  if (!asked && !error.not_sent && !lost) return std::nullopt;
  Duration delay = kFirstRetry;
  for (int i = 1; i < call.tries && delay < kLongestRetry; ++i) delay *= 2;
  delay = rng_.Between(delay / 2, std::min(delay, kLongestRetry));
  if (error.retry_after) delay = std::max(delay, *error.retry_after);
  if (loop_.clock().Now() + delay >= call.deadline) return std::nullopt;
  return delay;
}

void RestClient::Impl::Finish(PendingCall& call, Result<json> result) {
  --running_;
  const Callback done = std::move(call.done);
  calls_.erase(&call);
  StartWaiting();
  done(std::move(result));
}

void RestClient::Impl::LogWarnings(const HttpResponse& response) {
  for (const std::string& warning : response.warnings) {
    if (warned_.size() < 100 && warned_.insert(warning).second) LogWarning("the API server warns", {{"warning", warning}});
  }
}

// Its handlers may destroy it; `life_` tells them.
class RestClient::Impl::Stream final : public WatchStream {
 public:
  Stream(Impl& impl, const WatchRequest& request, EventHandler on_event, EndHandler on_end)
      : life_(std::make_shared<Life>(Life{impl, FrameSplitter(kLargestEvent), std::move(on_event), std::move(on_end)})) {
    life_->token = impl.tokens_.Current();
    HttpRequest http = Encode(request, impl.server_, life_->token);
    http.idle_timeout = request.idle_timeout;
    life_->resource = request.type.plural;
    transfer_ = impl.engine_.Start(std::move(http),
                                   {.data = [life = life_](std::string_view bytes) { life->OnBytes(bytes); },
                                    .done = [life = life_](Result<HttpResponse> answer) { life->OnDone(std::move(answer)); }});
  }
  ~Stream() override { life_->over = true; }

 private:
  struct Life {
    Impl& impl;
    FrameSplitter splitter;
    EventHandler on_event;
    EndHandler on_end;
    std::string token = {};
    std::string resource = {};
    bool over = false;  // ended, or destroyed

    void OnBytes(std::string_view bytes) {
      if (over) return;
      if (auto fed = splitter.Feed(bytes); !fed) return End(Fail(std::move(fed.error())));
      while (!over) {
        const std::string_view frame = splitter.Next();
        if (frame.empty()) return;
        on_event(frame);
      }
    }
    void OnDone(Result<HttpResponse> answer) {
      if (over) return;
      if (!answer) return End(Fail(std::move(answer.error())));
      impl.LogWarnings(*answer);
      if (answer->status < 300) return End({});
      Error error = ErrorOf(*answer);
      if (error.code == ErrorCode::kUnauthorized) impl.tokens_.Refused(token);
      End(Fail(std::move(error)));
    }
    void End(Status status) {
      over = true;
      if (!status) status = Fail(Annotate(std::move(status.error()), "watch " + resource));
      on_end(std::move(status));
    }
  };

  std::shared_ptr<Life> life_;
  std::unique_ptr<HttpTransfer> transfer_;
};

std::unique_ptr<WatchStream> RestClient::Impl::Watch(const WatchRequest& request, EventHandler on_event, EndHandler on_end) {
  return std::make_unique<Stream>(*this, request, std::move(on_event), std::move(on_end));
}

RestClient::RestClient(EventLoop& loop, ClientConfig config, std::string user_agent, std::uint64_t seed)
    : loop_(loop), impl_(std::make_shared<Impl>(loop, std::move(config), std::move(user_agent), seed)) {}

RestClient::~RestClient() = default;

void RestClient::Call(ApiRequest request, Callback done) {
  loop_.Post([weak = std::weak_ptr(impl_), request = std::move(request), done = std::move(done)]() mutable {
    if (auto impl = weak.lock()) impl->Enqueue(std::move(request), std::move(done));
  });
}

std::unique_ptr<WatchStream> RestClient::Watch(WatchRequest request, EventHandler on_event, EndHandler on_end) {
  return impl_->Watch(request, std::move(on_event), std::move(on_end));
}

}  // namespace cd::kube
