// SIGTERM and SIGINT as events of the loop.
#pragma once

#include <functional>

#include "src/base/event_loop.h"

namespace cd {

class StopSignals {
 public:
  // Blocks both signals for this thread and those it starts from now on: construct it before the first one. `stop` runs on the
  // loop's thread, once for each delivery.
  StopSignals(EventLoop& loop, std::function<void()> stop);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  EventLoop& loop_;
  Fd fd_;
};

}  // namespace cd
