// HTTPS/1.1 server of the webhooks: short requests of the API server on connections it keeps. No HTTP/2; the API server's client
// falls back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/webhook/certificates.h"

namespace cd::webhook {

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
};

struct HttpsOptions {
  std::string address = "::";  // all of the host
  std::uint16_t port = 0;      // 0 takes a free one
  int threads = 4;             // a large review keeps one busy
  Duration idle{120'000};      // longer than the API server keeps an idle connection
  Duration slow{30'000};       // for a handshake, and for the rest of a request that has begun
};

// All members may be called from any thread.
class HttpsServer {
 public:
  // A POST of at most LongestBody(target) bytes; called by several threads at once.
  using Handler = std::function<HttpAnswer(std::string_view target, std::string body)>;
  // 0: there is no such target.
  using LongestBody = std::function<std::size_t(std::string_view target)>;

  HttpsServer(LongestBody longest_body, Handler handler);
  ~HttpsServer();  // closes what is open at once
  HttpsServer(const HttpsServer&) = delete;
  HttpsServer& operator=(const HttpsServer&) = delete;

  // For handshakes that begin from now on; connections keep theirs. kInvalidArgument: no pair of certificate and key in PEM, and
  // the former stays.
  Status Use(const KeyPair& identity);
  // Before Use has succeeded once, connections are closed at once.
  Status Listen(const HttpsOptions& options);
  std::uint16_t port() const;
  // Accepts nothing more, lets requests that have begun be answered, and returns when they are, at `limit` at the latest.
  void Stop(Duration limit);

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace cd::webhook
