// Sockets by numeric address or path. Nothing here resolves names, so that statically linked programs can use it.
#pragma once

#include <sys/socket.h>

#include <string>

#include "emulator/base/result.h"
#include "emulator/base/unique_fd.h"

namespace emu {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family() const { return storage.ss_family; }
};

// `interface` gives IPv6 link-local addresses their scope; otherwise empty.
Result<SocketAddress> ParseAddress(const std::string& ip, int port, const std::string& interface = "");

// An empty `ip` listens on all interfaces. The error of a taken port reads "Address already in use".
Result<UniqueFd> ListenTcp(const std::string& ip, int port, const std::string& interface = "");
Result<UniqueFd> ListenUnix(const std::string& path, unsigned mode);

// Next pending connection, non-blocking; an invalid descriptor when there is none.
UniqueFd Accept(const UniqueFd& listener);

// Starts a connection; writable (or in error) when done. ConnectError() then tells the outcome: 0 or an errno.
Result<UniqueFd> StartConnect(const SocketAddress& address);
int ConnectError(const UniqueFd& socket);

// Notice a peer whose machine vanished without a word.
void EnableKeepAlive(const UniqueFd& socket);

// A connected non-blocking socket; connecting to a local listener does not block.
Result<UniqueFd> ConnectUnix(const std::string& path);

}  // namespace emu
