// One attempt to connect.
#pragma once

#include <functional>

#include "emulator/base/event_loop.h"
#include "emulator/base/net.h"
#include "emulator/base/result.h"
#include "emulator/base/unique_fd.h"

namespace emu {

class Dial {
 public:
  using Done = std::function<void(Result<UniqueFd>)>;

  // Calls `done` once from the loop, unless destroyed before; `done` may destroy the Dial.
  Dial(EventLoop& loop, const SocketAddress& address, Milliseconds timeout, Done done);
  Dial(const Dial&) = delete;
  Dial& operator=(const Dial&) = delete;
  ~Dial();

 private:
  void Finish(Result<UniqueFd> result);

  EventLoop& loop_;
  Done done_;
  UniqueFd socket_;
  EventLoop::Timer timer_;
};

}  // namespace emu
