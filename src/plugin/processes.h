// The node's processes, as a parameter: who holds a channel, and when one of them ends.
#pragma once

#include <sys/types.h>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/base/event_loop.h"
#include "src/base/fd.h"
#include "src/base/result.h"

namespace cd::plugin {

class Processes {
 public:
  virtual ~Processes() = default;

  // By claim UID; see ScanProcesses.
  virtual Result<std::map<std::string, std::vector<pid_t>>> Holders(const std::set<std::string>& claims) = 0;

  enum class Following {
    kFollowed,
    kEnded,       // since it was found
    kImpossible,  // its end will not be told
  };
  // `ended` runs once, later, on the executor; not after Forget. A process is followed once.
  virtual Following Follow(pid_t pid, std::function<void()> ended) = 0;
  virtual void Forget(pid_t pid) = 0;
};

// Through a /proc of the host's PID namespace, and pidfds. Loop's thread only.
class KernelProcesses final : public Processes {
 public:
  KernelProcesses(EventLoop& loop, std::filesystem::path proc_root) : loop_(loop), proc_root_(std::move(proc_root)) {}
  ~KernelProcesses() override;
  KernelProcesses(const KernelProcesses&) = delete;
  KernelProcesses& operator=(const KernelProcesses&) = delete;

  Result<std::map<std::string, std::vector<pid_t>>> Holders(const std::set<std::string>& claims) override;
  Following Follow(pid_t pid, std::function<void()> ended) override;
  void Forget(pid_t pid) override;

 private:
  EventLoop& loop_;
  const std::filesystem::path proc_root_;
  std::map<pid_t, Fd> pidfds_;  // readable when the process has ended
};

}  // namespace cd::plugin
