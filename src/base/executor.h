// Where work runs. Posting is the only way from one thread to another's state.
#pragma once

#include <cstdint>
#include <functional>

#include "src/base/clock.h"

namespace cd {

using Task = std::function<void()>;
using TimerId = std::uint64_t;  // 0 is never a timer

class Executor {
 public:
  virtual ~Executor() = default;

  // Runs `task` later on the executor's thread, in posting order. Any thread.
  virtual void Post(Task task) = 0;
  // Runs `task` once after `delay`, timers due at the same time in creation order. Any thread.
  virtual TimerId PostAfter(Duration delay, Task task) = 0;
  // Executor's thread only. After it returns the task will not run; an unknown or fired id is ignored.
  virtual void Cancel(TimerId timer) = 0;
  // True on the executor's own thread.
  virtual bool IsCurrent() const = 0;
  virtual const Clock& clock() const = 0;
};

}  // namespace cd
