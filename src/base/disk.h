// What lasts on a node, as a parameter: a simulation ends processes between any two of these calls, and delays them.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace cd {

// An exclusive lock on a file, held until destroyed; also let go of when the process ends, however it ends.
class DiskLock {
 public:
  virtual ~DiskLock() = default;
};

// Each function does what its namesake in files.h does; Replace is ReplaceFileUntilReboot.
class Disk {
 public:
  virtual ~Disk() = default;

  virtual Result<std::string> Read(const std::filesystem::path& path, std::size_t max_bytes = 1 << 20) = 0;
  virtual Status Replace(const std::filesystem::path& path, std::string_view content, mode_t mode = 0600) = 0;
  virtual Status Remove(const std::filesystem::path& path) = 0;
  virtual Status MakeDirectories(const std::filesystem::path& path) = 0;
  virtual Status Rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual bool Exists(const std::filesystem::path& path) = 0;
  // Names of a directory's entries, sorted; empty when it cannot be read.
  virtual std::vector<std::string> Names(const std::filesystem::path& directory) = 0;
  // nullptr: somebody else holds it. The file is made where it is missing.
  virtual Result<std::unique_ptr<DiskLock>> TryLock(const std::filesystem::path& path) = 0;
};

// The machine's; stateless and thread-safe. Its locks are flock(2)s.
Disk& SystemDisk();

}  // namespace cd
