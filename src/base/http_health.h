// Answers probes: plain HTTP/1.1, GET only, one short request for each connection.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "src/base/event_loop.h"
#include "src/base/result.h"

namespace cd {

struct HealthAnswer {
  int code = 200;  // 200, 404, 405 or 503
  std::string body;
};

// Loop's thread only, after construction and Listen.
class HealthServer {
 public:
  // `path` is "/healthz", "/readyz" …; what nobody knows should be 404.
  using Handler = std::function<HealthAnswer(std::string_view path)>;

  HealthServer(EventLoop& loop, Handler handler);
  ~HealthServer();
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;

  // All addresses of the host, IPv4 and IPv6; port 0 takes a free one.
  Status Listen(std::uint16_t port);
  std::uint16_t port() const { return port_; }

 private:
  struct Connection {
    Fd fd;
    std::string request;
    TimerId timeout = 0;
  };

  void Accept();
  void Read(int fd);
  void Answer(Connection& connection);
  void Close(int fd);

  EventLoop& loop_;
  Handler handler_;
  Fd listener_;
  std::uint16_t port_ = 0;
  std::map<int, Connection> connections_;
};

// "/healthz" is 200 "ok"; "/readyz" is 200 when `why_not` returns "", else 503 with that text.
HealthAnswer AnswerProbe(std::string_view path, const std::function<std::string()>& why_not_ready);

}  // namespace cd
