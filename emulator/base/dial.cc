#include "emulator/base/dial.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

namespace emu {

Dial::Dial(EventLoop& loop, const SocketAddress& address, Milliseconds timeout, Done done) : loop_(loop), done_(std::move(done)) {
  auto socket = StartConnect(address);
  if (!socket) {
    timer_ = loop_.After(Milliseconds(0), [this, error = socket.error()] { Finish(tl::unexpected(error)); });
    return;
  }
  socket_ = *std::move(socket);
  timer_ = loop_.After(timeout, [this] { Finish(Fail("connection timed out")); });
  loop_.Watch(socket_.get(), EPOLLOUT, [this](uint32_t) {
    const int error = ConnectError(socket_);
    loop_.Forget(socket_.get());
    if (error != 0) return Finish(Fail(std::strerror(error)));
    Finish(std::move(socket_));
  });
}

Dial::~Dial() {
  if (socket_.valid()) loop_.Forget(socket_.get());
}

void Dial::Finish(Result<UniqueFd> result) {
  timer_.Cancel();
  // Moved out: the callback usually destroys this object.
  const Done done = std::move(done_);
  done(std::move(result));
}

}  // namespace emu
