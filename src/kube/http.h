// HTTP/1.1 on libcurl's multi interface, driven by the event loop: no thread of its own, idle connections are used again.
// Everything on the loop's thread, or while the loop does not run.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/event_loop.h"
#include "src/base/result.h"

namespace cd::kube {

// Who the server must be and who we are. Exactly one of `ca_file` and `ca_pem` unless `insecure`; the file is read again for new
// connections (every five minutes at most), the system's own CAs are never trusted.
struct TlsSettings {
  std::string ca_file = {};
  std::string ca_pem = {};
  std::string client_cert_pem = {};
  std::string client_key_pem = {};
  std::string server_name = {};  // the name to expect in the certificate, when it is not the URL's host
  bool insecure = false;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url = {};
  std::vector<std::string> headers = {};  // "Name: value"
  std::string body = {};
  Duration timeout{0};       // whole transfer; 0: none
  Duration idle_timeout{0};  // no byte for that long; 0: none
  std::size_t largest_answer = 64 << 20;
};

struct HttpResponse {
  int status = 0;
  std::string body;
  std::optional<Duration> retry_after;
  std::vector<std::string> warnings;  // values of `Warning` headers
};

// A running transfer. Destroying it aborts it; no handler runs after that.
class HttpTransfer {
 public:
  virtual ~HttpTransfer() = default;
};

struct HttpHandlers {
  // Bytes of a 2xx answer as they arrive. Without it they are collected in `body`, as those of other answers always are.
  std::function<void(std::string_view)> data = nullptr;
  // Runs once, last. An answer with any status is a success here. kUnavailable: connection refused (`not_sent`) or lost;
  // kDeadlineExceeded: one of the timeouts. Handlers may start and destroy transfers, this one included.
  std::function<void(Result<HttpResponse>)> done = nullptr;
};

class HttpEngine {
 public:
  HttpEngine(EventLoop& loop, TlsSettings tls, std::string user_agent);
  // All transfers must be gone.
  ~HttpEngine();
  HttpEngine(const HttpEngine&) = delete;
  HttpEngine& operator=(const HttpEngine&) = delete;

  std::unique_ptr<HttpTransfer> Start(HttpRequest request, HttpHandlers handlers);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cd::kube
