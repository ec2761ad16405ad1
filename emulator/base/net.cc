#include "emulator/base/net.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>

namespace emu {
namespace {

Result<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Fail("socket path too long: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

UniqueFd NewSocket(int family) {
  return UniqueFd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

}  // namespace

Result<SocketAddress> ParseAddress(const std::string& ip, int port, const std::string& interface) {
  SocketAddress result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  if (::inet_pton(AF_INET, ip.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    result.length = sizeof *v4;
    return result;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (::inet_pton(AF_INET6, ip.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    if (!interface.empty()) v6->sin6_scope_id = ::if_nametoindex(interface.c_str());
    result.length = sizeof *v6;
    return result;
  }
  return Fail("\"" + ip + "\" is not an IP address");
}

Result<UniqueFd> ListenTcp(const std::string& ip, int port, const std::string& interface) {
  const auto address = ParseAddress(ip.empty() ? "0.0.0.0" : ip, port, interface);
  if (!address) return tl::unexpected(address.error());
  const std::string name = ip + ":" + std::to_string(port);
  UniqueFd socket = NewSocket(address->family());
  if (!socket.valid()) return FailErrno("cannot create a socket for " + name);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address->storage), address->length) != 0 ||
      ::listen(socket.get(), 128) != 0) {
    return FailErrno("cannot listen on " + name);
  }
  return socket;
}

Result<UniqueFd> ListenUnix(const std::string& path, unsigned mode) {
  const auto address = UnixAddress(path);
  if (!address) return tl::unexpected(address.error());
  UniqueFd socket = NewSocket(AF_UNIX);
  if (!socket.valid()) return FailErrno("cannot create a socket for " + path);
  ::unlink(path.c_str());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::chmod(path.c_str(), mode) != 0 || ::listen(socket.get(), 128) != 0) {
    return FailErrno("cannot listen on " + path);
  }
  return socket;
}

UniqueFd Accept(const UniqueFd& listener) {
  return UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

Result<UniqueFd> StartConnect(const SocketAddress& address) {
  UniqueFd socket = NewSocket(address.family());
  if (!socket.valid()) return FailErrno("cannot create a socket");
  const int rc = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length);
  if (rc != 0 && errno != EINPROGRESS) return FailErrno("cannot connect");
  return socket;
}

int ConnectError(const UniqueFd& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

void EnableKeepAlive(const UniqueFd& socket) {
  const auto set = [&](int level, int option, int value) { ::setsockopt(socket.get(), level, option, &value, sizeof value); };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 11000);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

Result<UniqueFd> ConnectUnix(const std::string& path) {
  const auto address = UnixAddress(path);
  if (!address) return tl::unexpected(address.error());
  UniqueFd socket = NewSocket(AF_UNIX);
  if (!socket.valid()) return FailErrno("cannot create a socket for " + path);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return FailErrno("cannot connect to " + path);
  }
  return socket;
}

}  // namespace emu
