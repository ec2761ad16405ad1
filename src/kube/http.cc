#include "src/kube/http.h"

#include <sys/epoll.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <utility>

#include "src/base/log.h"
#include "src/kube/curl_transfer.h"

namespace cd::kube {
namespace {

// A server that accepts a watch but does not begin to answer is as good as gone, however long silence is allowed afterwards.
constexpr Duration kFirstByteTimeout{30'000};

CURLM* NewMulti() {
  static const CURLcode initialised = [] {
    // A peer that closes while OpenSSL writes is an error of that transfer, not the end of the process.
    std::signal(SIGPIPE, SIG_IGN);
    return curl_global_init(CURL_GLOBAL_DEFAULT);
  }();
  CURLM* multi = initialised == CURLE_OK ? curl_multi_init() : nullptr;
  if (multi == nullptr) {
    LogError("libcurl cannot be initialised", {{"error", curl_easy_strerror(initialised)}});
    std::abort();
  }
  return multi;
}

std::uint32_t EpollMask(int what) {
  std::uint32_t mask = 0;
  if (what != CURL_POLL_OUT) mask |= EPOLLIN;
  if (what != CURL_POLL_IN) mask |= EPOLLOUT;
  return mask;
}

int CurlMask(std::uint32_t events) {
  // Errors and hang-ups are found by reading and writing.
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) return CURL_CSELECT_IN | CURL_CSELECT_OUT;
  return ((events & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) | ((events & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0);
}

}  // namespace

class HttpEngine::Impl {
 public:
  Impl(EventLoop& loop, TlsSettings tls, std::string user_agent)
      : loop_(loop),
        tls_(std::move(tls)),
        user_agent_(std::move(user_agent)),
        multi_(NewMulti()),
        alive_(std::make_shared<bool>()) {
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &OnSocketWish);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &OnTimerWish);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 16L);
  }
  ~Impl() {
    curl_multi_cleanup(multi_);
    loop_.Cancel(timer_);
  }

  std::unique_ptr<HttpTransfer> Start(HttpRequest request, HttpHandlers handlers);
  void Abort(const std::shared_ptr<CurlTransfer>& transfer) {
    transfer->aborted = true;
    Detach(*transfer);
  }

 private:
  static int OnSocketWish(CURL*, curl_socket_t socket, int what, void* self, void*) {
    auto& impl = *static_cast<Impl*>(self);
    if (what == CURL_POLL_REMOVE) {
      impl.loop_.Unwatch(socket);
    } else {
      impl.loop_.Watch(socket, EpollMask(what), [&impl, socket](std::uint32_t events) { impl.Act(socket, CurlMask(events)); });
    }
    return 0;
  }
  static int OnTimerWish(CURLM*, long milliseconds, void* self) {
    auto& impl = *static_cast<Impl*>(self);
    impl.loop_.Cancel(std::exchange(impl.timer_, 0));
    if (milliseconds >= 0) {
      impl.timer_ = impl.loop_.PostAfter(Duration(milliseconds), [&impl] { impl.Act(CURL_SOCKET_TIMEOUT, 0); });
    }
    return 0;
  }

  void Act(curl_socket_t socket, int mask);
  void Queue(const std::shared_ptr<CurlTransfer>& transfer) {
    if (!std::exchange(transfer->queued, true)) arrived_.push_back(transfer);
  }
  void DeliverArrived();
  void Detach(CurlTransfer& transfer) {
    if (std::exchange(transfer.attached, false)) curl_multi_remove_handle(multi_, transfer.easy());
  }
  void ArmIdleTimer(const std::shared_ptr<CurlTransfer>& transfer, Duration delay);
  void CheckIdle(const std::shared_ptr<CurlTransfer>& transfer);

  EventLoop& loop_;
  const TlsSettings tls_;
  const std::string user_agent_;
  CURLM* const multi_;
  TimerId timer_ = 0;
  std::deque<std::shared_ptr<CurlTransfer>> arrived_;
  std::shared_ptr<bool> alive_;  // expires with the engine
};

namespace {

// What the caller holds.
class TransferHandle final : public HttpTransfer {
 public:
  explicit TransferHandle(std::function<void()> abort) : abort_(std::move(abort)) {}
  ~TransferHandle() override { abort_(); }

 private:
  std::function<void()> abort_;
};

}  // namespace

std::unique_ptr<HttpTransfer> HttpEngine::Impl::Start(HttpRequest request, HttpHandlers handlers) {
  auto transfer = std::make_shared<CurlTransfer>(std::move(request), std::move(handlers));
  transfer->Configure(tls_, user_agent_);
  transfer->on_activity = [this, weak = std::weak_ptr(transfer)](CurlTransfer& t) {
    t.last_activity = loop_.clock().Now();
    if (auto self = weak.lock(); self && t.SomethingArrived()) Queue(self);
  };
  transfer->last_activity = loop_.clock().Now();
  const CURLMcode added = curl_multi_add_handle(multi_, transfer->easy());
  transfer->attached = added == CURLM_OK;
  if (!transfer->attached) {
    transfer->Finish(Error{ErrorCode::kInternal, curl_multi_strerror(added)});
    loop_.Post([this, engine = std::weak_ptr(alive_), transfer] {
      if (engine.expired()) return;
      Queue(transfer);
      DeliverArrived();
    });
  }
  if (transfer->request().idle_timeout > Duration(0)) {
    ArmIdleTimer(transfer, std::min(transfer->request().idle_timeout, kFirstByteTimeout));
  }
  return std::make_unique<TransferHandle>([this, transfer] { Abort(transfer); });
}

void HttpEngine::Impl::Act(curl_socket_t socket, int mask) {
  if (socket == CURL_SOCKET_TIMEOUT) timer_ = 0;
  int running = 0;
  curl_multi_socket_action(multi_, socket, mask, &running);
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CurlTransfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    transfer->Finish(message->data.result);
    Detach(*transfer);  // gives the connection back before a handler starts the next transfer
    transfer->on_activity(*transfer);
  }
  DeliverArrived();
}

void HttpEngine::Impl::DeliverArrived() {
  while (!arrived_.empty()) {
    const std::shared_ptr<CurlTransfer> transfer = std::move(arrived_.front());
    arrived_.pop_front();
    transfer->queued = false;
    if (!transfer->aborted) transfer->Deliver();
  }
}

void HttpEngine::Impl::ArmIdleTimer(const std::shared_ptr<CurlTransfer>& transfer, Duration delay) {
  loop_.PostAfter(delay, [this, engine = std::weak_ptr(alive_), weak = std::weak_ptr(transfer)] {
    auto self = weak.lock();
    if (!engine.expired() && self && self->attached) CheckIdle(self);
  });
}

void HttpEngine::Impl::CheckIdle(const std::shared_ptr<CurlTransfer>& transfer) {
  const Duration allowed =
      transfer->answering ? transfer->request().idle_timeout : std::min(transfer->request().idle_timeout, kFirstByteTimeout);
  const Duration idle = loop_.clock().Now() - transfer->last_activity;
  if (idle < allowed) return ArmIdleTimer(transfer, allowed - idle);
  transfer->Finish(Error{ErrorCode::kDeadlineExceeded, "the server was silent for too long"});
  Detach(*transfer);
  Queue(transfer);
  DeliverArrived();
}

HttpEngine::HttpEngine(EventLoop& loop, TlsSettings tls, std::string user_agent)
    : impl_(std::make_unique<Impl>(loop, std::move(tls), std::move(user_agent))) {}

HttpEngine::~HttpEngine() = default;

std::unique_ptr<HttpTransfer> HttpEngine::Start(HttpRequest request, HttpHandlers handlers) {
  return impl_->Start(std::move(request), std::move(handlers));
}

}  // namespace cd::kube
