#include "src/plugin/fabric_watch.h"

#include <optional>
#include <utility>

namespace cd::plugin {

namespace {
constexpr std::chrono::seconds kInterval{2};
}

FabricWatch::FabricWatch(Executor& executor, std::filesystem::path driver_root,
                         std::function<void(const fabric::FabricView&)> on_change)
    : executor_(executor), on_change_(std::move(on_change)), thread_([this, root = std::move(driver_root)] { Run(root); }) {}

FabricWatch::~FabricWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void FabricWatch::Run(std::filesystem::path driver_root) {
  fabric::FabricProbe probe(std::move(driver_root));
  std::optional<fabric::FabricView> last;
  for (;;) {
    fabric::FabricView view = probe.Read();
    if (last != view) {
      last = view;
      // By value: the loop may run it after this object is gone.
      executor_.Post([on_change = on_change_, view = std::move(view)] { on_change(view); });
    }
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, kInterval, [this] { return ending_; })) return;
  }
}

}  // namespace cd::plugin
