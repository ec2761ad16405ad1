#include "src/plugin/recording.h"

#include <utility>

namespace cd::plugin {

namespace {

constexpr Duration kRetry{1'000};

}  // namespace

void Recording::Run(NodeState::Change change, std::function<void(const Status&)> tell) {
  if (under_way_) {
    asked_meanwhile_ = true;
    return;
  }
  under_way_ = true;
  state_.Transact(std::move(change), [this, tell = std::move(tell)](const Status& result) {
    under_way_ = false;
    const bool asked = std::exchange(asked_meanwhile_, false);
    tell(result);
    if (!result) return RetryLater();
    if (asked) again_();
  });
}

void Recording::RetryLater() {
  if (retry_ != 0) return;
  retry_ = executor_.PostAfter(kRetry, [this] {
    retry_ = 0;
    again_();
  });
}

}  // namespace cd::plugin
