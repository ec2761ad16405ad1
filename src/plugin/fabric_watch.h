// Reads the fabric every two seconds on a thread of its own (NVML may block as long as the driver does) and tells the loop what
// changed.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "src/base/executor.h"
#include "src/fabric/fabric_probe.h"

namespace cd::plugin {

class FabricWatch {
 public:
  // `on_change` runs on `executor`: once for the first reading, then whenever the view differs.
  FabricWatch(Executor& executor, std::filesystem::path driver_root, std::function<void(const fabric::FabricView&)> on_change);
  ~FabricWatch();  // waits for a reading under way
  FabricWatch(const FabricWatch&) = delete;
  FabricWatch& operator=(const FabricWatch&) = delete;

 private:
  void Run(std::filesystem::path driver_root);

  Executor& executor_;
  std::function<void(const fabric::FabricView&)> on_change_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace cd::plugin
