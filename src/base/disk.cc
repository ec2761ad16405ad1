#include "src/base/disk.h"

#include <algorithm>
#include <system_error>

#include "src/base/fd.h"
#include "src/base/file_lock.h"
#include "src/base/files.h"

namespace cd {
namespace {

namespace fs = std::filesystem;

class FileDescriptorLock final : public DiskLock {
 public:
  explicit FileDescriptorLock(Fd fd) : fd_(std::move(fd)) {}

 private:
  Fd fd_;
};

class Files final : public Disk {
 public:
  Result<std::string> Read(const fs::path& path, std::size_t max_bytes) override { return ReadSmallFile(path, max_bytes); }
  Status Replace(const fs::path& path, std::string_view content, mode_t mode) override {
    // Everything here is of one boot: checkpoint, markers and CDI specs of an earlier one are dropped unread.
    return ReplaceFileUntilReboot(path, content, mode);
  }
  Status Remove(const fs::path& path) override { return RemoveFile(path); }
  Status MakeDirectories(const fs::path& path) override { return cd::MakeDirectories(path); }

  Status Rename(const fs::path& from, const fs::path& to) override {
    std::error_code error;
    fs::rename(from, to, error);
    if (error) return Fail(ErrnoError(error.value(), "rename " + from.string()));
    return {};
  }

  bool Exists(const fs::path& path) override {
    std::error_code error;
    return fs::exists(path, error);
  }

  std::vector<std::string> Names(const fs::path& directory) override {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<std::unique_ptr<DiskLock>> TryLock(const fs::path& path) override {
    auto fd = TryLockFile(path);
    if (!fd) return Fail(fd.error());
    if (!*fd) return nullptr;
    return std::make_unique<FileDescriptorLock>(std::move(*fd));
  }
};

}  // namespace

Disk& SystemDisk() {
  static Files files;
  return files;
}

}  // namespace cd
