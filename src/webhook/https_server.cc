#include "src/webhook/https_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/log.h"

namespace cd::webhook {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::uint32_t kLongestHeader = 16 * 1024;

// What a session needs of its server; the server outlives the threads that run sessions.
struct Service {
  HttpsServer::LongestBody longest_body;
  HttpsServer::Handler handler;
  HttpsOptions options;
  std::atomic<bool> stopping = false;
};

// One connection. Its handlers run one at a time, on its strand.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, std::shared_ptr<asio::ssl::context> tls, const Service& service)
      : tls_(std::move(tls)), stream_(std::move(socket), *tls_), service_(service) {}

  void Start() {
    asio::dispatch(stream_.get_executor(), [self = shared_from_this()] {
      self->Expire(self->service_.options.slow);
      self->stream_.async_handshake(asio::ssl::stream_base::server, [self](error_code error) {
        if (!error) self->AwaitRequest();
      });
    });
  }
  // An idle connection ends; one with a request ends when that is answered.
  void EndWhenIdle() {
    asio::post(stream_.get_executor(), [self = shared_from_this()] {
      if (self->idle_) self->Close();
    });
  }
  void Close() {
    error_code ignored;
    beast::get_lowest_layer(stream_).socket().close(ignored);
  }

 private:
  void Expire(Duration after) { beast::get_lowest_layer(stream_).expires_after(after); }

  // The next request may be long in coming; once it has begun its header may not.
  void AwaitRequest() {
    if (service_.stopping) return ShutDown();
    if (buffer_.size() > 0) return ReadHeader();
    idle_ = true;
    Expire(service_.options.idle);
    stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code error, std::size_t size) {
      self->idle_ = false;
      if (error) return self->Close();
      self->buffer_.commit(size);
      self->ReadHeader();
    });
  }
  void ReadHeader() {
    parser_.emplace();
    parser_->header_limit(kLongestHeader);
    parser_->body_limit(boost::none);
    Expire(service_.options.slow);
    http::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return self->Close();
      self->ReadBody();
    });
  }
  void ReadBody() {
    const auto& request = parser_->get();
    const std::size_t longest = service_.longest_body(Target());
    if (longest == 0) return Refuse(http::status::not_found, "no such path");
    if (request.method() != http::verb::post) return Refuse(http::status::method_not_allowed, "only POST");
    if (parser_->content_length().value_or(0) > longest)
      return Refuse(http::status::payload_too_large, "a request here has at most " + std::to_string(longest) + " bytes");
    parser_->body_limit(longest);
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
      if (error == http::error::body_limit) return self->Refuse(http::status::payload_too_large, "the request is too long");
      if (error) return self->Close();
      self->Handle();
    });
  }
  void Handle() {
    // The time it takes is ours, not the client's.
    beast::get_lowest_layer(stream_).expires_never();
    const std::string target(Target());
    HttpAnswer answer = service_.handler(target, std::move(parser_->get().body()));
    Answer(static_cast<http::status>(answer.status), std::move(answer.body), answer.content_type, parser_->get().keep_alive());
  }
  // The rest of the request is not understood, so nothing can follow it.
  void Refuse(http::status status, std::string why) {
    refused_ = true;
    Answer(status, std::move(why), "text/plain", false);
  }

  void Answer(http::status status, std::string body, const std::string& content_type, bool keep_alive) {
    response_ = http::response<http::string_body>(status, parser_->get().version());
    response_.set(http::field::content_type, content_type);
    response_.keep_alive(keep_alive && !service_.stopping);
    response_.body() = std::move(body);
    response_.prepare_payload();
    parser_.reset();
    Expire(service_.options.slow);
    http::async_write(stream_, response_, [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return self->Close();
      const bool more = self->response_.keep_alive();
      self->response_ = {};  // a long answer is not kept for an idle connection
      if (more) return self->AwaitRequest();
      if (self->refused_) return self->PassOver();
      self->ShutDown();
    });
  }
  // A connection closed with something unread is reset, and the client may lose the answer. Ends with the client, or in time.
  void PassOver() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(64 * 1024), [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return self->Close();
      self->PassOver();
    });
  }
  void ShutDown() {
    Expire(service_.options.slow);
    stream_.async_shutdown([self = shared_from_this()](error_code) { self->Close(); });
  }
  std::string_view Target() const {
    const auto target = parser_->get().target();
    return std::string_view(target.data(), target.size()).substr(0, std::string_view(target.data(), target.size()).find('?'));
  }

  const std::shared_ptr<asio::ssl::context> tls_;  // outlives the stream
  beast::ssl_stream<beast::tcp_stream> stream_;
  const Service& service_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  bool idle_ = false;
  bool refused_ = false;
};

}  // namespace

class HttpsServer::Core {
 public:
  Core(LongestBody longest_body, Handler handler) {
    service_.longest_body = std::move(longest_body);
    service_.handler = std::move(handler);
  }
  ~Core() { Stop(Duration(0)); }

  Status Use(const KeyPair& identity) {
    auto tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    error_code error;
    tls->set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
    tls->use_certificate_chain(asio::buffer(identity.certificate), error);
    if (!error) tls->use_private_key(asio::buffer(identity.key), asio::ssl::context::pem, error);
    if (error || SSL_CTX_check_private_key(tls->native_handle()) != 1) {
      ERR_clear_error();
      return Fail(ErrorCode::kInvalidArgument,
                  "no pair of a certificate and its key in PEM" + (error ? ": " + error.message() : ""));
    }
    const std::lock_guard lock(mutex_);
    tls_ = std::move(tls);
    return {};
  }

  Status Listen(const HttpsOptions& options) {
    service_.options = options;
    error_code error;
    const auto address = asio::ip::make_address(options.address, error);
    const tcp::endpoint endpoint(address, options.port);
    if (!error) acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error)
      return Fail(ErrorCode::kUnavailable,
                  "listen on port " + std::to_string(options.port) + " of " + options.address + ": " + error.message());
    port_ = acceptor_.local_endpoint().port();
    Accept();
    for (int i = 0; i < options.threads; ++i) {
      threads_.emplace_back([this] {
        io_.run();
        const std::lock_guard lock(mutex_);
        ++ended_;
        all_ended_.notify_all();
      });
    }
    return {};
  }
  std::uint16_t port() const { return port_; }

  void Stop(Duration limit) {
    if (threads_.empty()) return;
    service_.stopping = true;
    asio::post(accepting_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      retry_.cancel();
    });
    {
      const std::lock_guard lock(mutex_);
      for (const auto& session : sessions_) {
        if (const auto alive = session.lock()) alive->EndWhenIdle();
      }
    }
    std::unique_lock lock(mutex_);
    all_ended_.wait_for(lock, limit, [this] { return ended_ == threads_.size(); });
    lock.unlock();
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void Accept() {
    acceptor_.async_accept(asio::make_strand(io_), asio::bind_executor(accepting_, [this](error_code error, tcp::socket socket) {
                             if (service_.stopping) return;
                             if (!error) {
                               Begin(std::move(socket));
                               return Accept();
                             }
                             // Too many open files, say: the next moment may be better.
                             LogWarning("cannot accept a connection", {{"error", error.message()}});
                             retry_.expires_after(std::chrono::milliseconds(100));
                             retry_.async_wait([this](error_code cancelled) {
                               if (!cancelled) Accept();
                             });
                           }));
  }
  void Begin(tcp::socket socket) {
    const std::lock_guard lock(mutex_);
    if (tls_ == nullptr) return;  // whoever connects is told by the connection's end
    auto session = std::make_shared<Session>(std::move(socket), tls_, service_);
    std::erase_if(sessions_, [](const auto& other) { return other.expired(); });
    sessions_.push_back(session);
    session->Start();
  }

  Service service_;
  asio::io_context io_;
  asio::strand<asio::io_context::executor_type> accepting_{io_.get_executor()};
  tcp::acceptor acceptor_{accepting_};
  asio::steady_timer retry_{accepting_};
  std::uint16_t port_ = 0;
  std::vector<std::thread> threads_;

  std::mutex mutex_;  // guards tls_, sessions_, ended_
  std::shared_ptr<asio::ssl::context> tls_;
  std::vector<std::weak_ptr<Session>> sessions_;
  std::size_t ended_ = 0;
  std::condition_variable all_ended_;
};

HttpsServer::HttpsServer(LongestBody longest_body, Handler handler)
    : core_(std::make_unique<Core>(std::move(longest_body), std::move(handler))) {}
HttpsServer::~HttpsServer() = default;

Status HttpsServer::Use(const KeyPair& identity) {
  return core_->Use(identity);
}
Status HttpsServer::Listen(const HttpsOptions& options) {
  return core_->Listen(options);
}
std::uint16_t HttpsServer::port() const {
  return core_->port();
}
void HttpsServer::Stop(Duration limit) {
  core_->Stop(limit);
}

}  // namespace cd::webhook
