// A change of the checkpoint that events ask for, tried until the disk has taken it.
#pragma once

#include <functional>

#include "src/base/executor.h"
#include "src/plugin/node_state.h"

namespace cd::plugin {

// Executor's thread only. Events come faster than a lock is freed or a disk is mended, so one transaction is under way at most,
// and one retry is due at most, however many of them ask.
class Recording {
 public:
  // `again` looks anew at what is to be recorded, and calls Run if there is something.
  Recording(Executor& executor, NodeState& state, std::function<void()> again)
      : executor_(executor), state_(state), again_(std::move(again)) {}
  ~Recording() { executor_.Cancel(retry_); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // `tell` hears the result. While another one is under way nothing is done now: `again` follows it.
  void Run(NodeState::Change change, std::function<void(const Status&)> tell);

 private:
  void RetryLater();

  Executor& executor_;
  NodeState& state_;
  const std::function<void()> again_;
  bool under_way_ = false;
  bool asked_meanwhile_ = false;
  TimerId retry_ = 0;
};

}  // namespace cd::plugin
