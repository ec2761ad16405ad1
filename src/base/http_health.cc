#include "src/base/http_health.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

namespace cd {

namespace {

// A probe's request is a few hundred bytes and comes at once; who sends more, or dawdles, is no probe.
constexpr std::size_t kMaxRequest = 8 * 1024;
constexpr std::size_t kMaxConnections = 32;
constexpr Duration kPatience{5'000};

std::string_view ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Service Unavailable";
  }
}

}  // namespace

HealthServer::HealthServer(EventLoop& loop, Handler handler) : loop_(loop), handler_(std::move(handler)) {}

HealthServer::~HealthServer() {
  while (!connections_.empty()) Close(connections_.begin()->first);
  if (listener_) loop_.Unwatch(listener_.get());
}

Status HealthServer::Listen(std::uint16_t port) {
  Fd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(port);
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);
  const auto* address = reinterpret_cast<const sockaddr*>(&any6);
  socklen_t size = sizeof any6;
  if (!fd) {  // a kernel without IPv6
    fd.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    address = reinterpret_cast<const sockaddr*>(&any4);
    size = sizeof any4;
  }
  const int on = 1, off = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const std::string what = "listen on port " + std::to_string(port);
  if (::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), 16) != 0) return Fail(ErrnoError(errno, what));
  sockaddr_storage bound{};
  socklen_t bound_size = sizeof bound;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &bound_size) != 0) return Fail(ErrnoError(errno, what));
  port_ = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);  // the port stands at the same place in both families
  listener_ = std::move(fd);
  loop_.Watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { Accept(); });
  return {};
}

void HealthServer::Accept() {
  while (true) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    if (connections_.size() >= kMaxConnections) continue;
    const int number = fd.get();
    const TimerId timeout = loop_.PostAfter(kPatience, [this, number] { Close(number); });
    connections_[number] = Connection{std::move(fd), "", timeout};
    loop_.Watch(number, EPOLLIN, [this, number](std::uint32_t) { Read(number); });
  }
}

void HealthServer::Read(int fd) {
  Connection& connection = connections_.at(fd);
  char buffer[2048];
  const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0 || connection.request.size() + static_cast<std::size_t>(got) > kMaxRequest) return Close(fd);
  connection.request.append(buffer, static_cast<std::size_t>(got));
  if (connection.request.find("\r\n\r\n") == std::string::npos) return;
  Answer(connection);
  Close(fd);
}

void HealthServer::Answer(Connection& connection) {
  const std::string_view line = std::string_view(connection.request).substr(0, connection.request.find("\r\n"));
  HealthAnswer answer{405, "GET only\n"};
  if (line.starts_with("GET ")) {
    std::string_view path = line.substr(4);
    answer = handler_(path.substr(0, path.find_first_of(" ?")));
  }
  const std::string text =
      "HTTP/1.1 " + std::to_string(answer.code) + " " + std::string(ReasonOf(answer.code)) +
      "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " + std::to_string(answer.body.size()) +
      "\r\nConnection: close\r\n\r\n" + answer.body;
  // A probe's answer fits the socket's buffer; what does not is cut, and the prober sees it by the length.
  (void)!::send(connection.fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

void HealthServer::Close(int fd) {
  const auto it = connections_.find(fd);
  if (it == connections_.end()) return;
  loop_.Cancel(it->second.timeout);
  loop_.Unwatch(fd);
  connections_.erase(it);
}

HealthAnswer AnswerProbe(std::string_view path, const std::function<std::string()>& why_not_ready) {
  if (path == "/healthz") return {200, "ok\n"};
  if (path != "/readyz") return {404, "try /healthz or /readyz\n"};
  const std::string why_not = why_not_ready();
  return why_not.empty() ? HealthAnswer{200, "ok\n"} : HealthAnswer{503, why_not + "\n"};
}

}  // namespace cd
