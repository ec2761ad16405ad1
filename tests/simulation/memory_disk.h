// A node's file system: survives processes, partly survives reboots, can be slow or full, and ends a process between any two
// calls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "src/base/disk.h"

namespace cd::simulation {

enum class DiskFault {
  kNone,
  kFull,        // nothing can be written, removing works
  kReadOnlyCdi  // neither, below /cdi
};

// Shared by all processes of a node.
struct DiskContent {
  std::map<std::string, std::string> files;
  std::set<std::string> locks;
  DiskFault fault = DiskFault::kNone;
  // Hears every change of a file.
  std::function<void(const std::string& path)> on_change;
};

// As one process sees it.
class MemoryDisk final : public Disk {
 public:
  explicit MemoryDisk(std::shared_ptr<DiskContent> content) : content_(std::move(content)) {}

  // Runs before every call, and once more after each that changed something; may yield, or throw Killed.
  std::function<void()> before_call;
  // Test switches.
  bool ignore_locks = false;
  std::function<void(const std::string& path, std::string& content)> corrupt_write;

  Result<std::string> Read(const std::filesystem::path& path, std::size_t max_bytes) override;
  Status Replace(const std::filesystem::path& path, std::string_view content, mode_t mode) override;
  Status Remove(const std::filesystem::path& path) override;
  Status MakeDirectories(const std::filesystem::path&) override { return {}; }
  Status Rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  bool Exists(const std::filesystem::path& path) override;
  std::vector<std::string> Names(const std::filesystem::path& directory) override;
  Result<std::unique_ptr<DiskLock>> TryLock(const std::filesystem::path& path) override;

 private:
  void Pause() {
    if (before_call) before_call();
  }

  std::shared_ptr<DiskContent> content_;
};

}  // namespace cd::simulation
