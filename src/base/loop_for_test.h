// A real event loop on the test's thread that runs until something holds. Test code only.
#pragma once

#include <functional>

#include "src/base/event_loop.h"

namespace cd {

class LoopForTest {
 public:
  EventLoop& loop() { return loop_; }

  // False: it did not hold within half a minute.
  bool RunUntil(const std::function<bool()>& condition) {
    holds_ = false;
    const TimerId limit = loop_.PostAfter(Duration(30'000), [this] { loop_.Stop(); });
    Check(condition);
    loop_.Run();
    loop_.Cancel(limit);
    return holds_;
  }

 private:
  void Check(const std::function<bool()>& condition) {
    holds_ = condition();
    if (holds_) return loop_.Stop();
    loop_.PostAfter(Duration(2), [this, &condition] { Check(condition); });
  }

  EventLoop loop_;
  bool holds_ = false;
};

}  // namespace cd
