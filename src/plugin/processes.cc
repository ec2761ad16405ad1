#include "src/plugin/processes.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "src/plugin/process_scan.h"

namespace cd::plugin {

KernelProcesses::~KernelProcesses() {
  for (const auto& [pid, fd] : pidfds_) loop_.Unwatch(fd.get());
}

Result<std::map<std::string, std::vector<pid_t>>> KernelProcesses::Holders(const std::set<std::string>& claims) {
  return ScanProcesses(proc_root_, claims);
}

Processes::Following KernelProcesses::Follow(pid_t pid, std::function<void()> ended) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return errno == ESRCH ? Following::kEnded : Following::kImpossible;
  Forget(pid);
  const auto it = pidfds_.emplace(pid, std::move(fd)).first;
  loop_.Watch(it->second.get(), EPOLLIN, [this, pid, ended = std::move(ended)](std::uint32_t) {
    const auto tell = ended;  // Forget destroys this function
    Forget(pid);
    tell();
  });
  return Following::kFollowed;
}

void KernelProcesses::Forget(pid_t pid) {
  const auto it = pidfds_.find(pid);
  if (it == pidfds_.end()) return;
  loop_.Unwatch(it->second.get());
  pidfds_.erase(it);
}

}  // namespace cd::plugin
