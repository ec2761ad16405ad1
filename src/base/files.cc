#include "src/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <system_error>

#include "src/base/fd.h"

namespace cd {
namespace {

namespace fs = std::filesystem;

Error PathError(int errno_value, std::string_view operation, const fs::path& path) {
  return ErrnoError(errno_value, fmt::format("{} {}", operation, path.string()));
}

Result<std::string> ReadAll(int fd, const fs::path& path, std::size_t max_bytes) {
  std::string content;
  for (;;) {
    char buffer[16384];
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Fail(PathError(errno, "read", path));
    if (n == 0) return content;
    if (content.size() + static_cast<std::size_t>(n) > max_bytes) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("read {}: larger than {} bytes", path.string(), max_bytes));
    }
    content.append(buffer, static_cast<std::size_t>(n));
  }
}

Status WriteAll(int fd, const fs::path& path, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Fail(PathError(errno, "write", path));
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

fs::path DirectoryOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

Status SyncDirectory(const fs::path& directory) {
  Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return Fail(PathError(errno, "open", directory));
  if (::fsync(fd.get()) != 0) return Fail(PathError(errno, "fsync", directory));
  return {};
}

// A file next to its target, removed unless it was renamed over it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target)
      : path_((DirectoryOf(target) / ("." + target.filename().string() + ".XXXXXX")).string()),
        fd_(::mkostemp(path_.data(), O_CLOEXEC)),
        error_(errno) {}
  ~TemporaryFile() {
    if (fd_ && !renamed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  Status Write(std::string_view content, mode_t mode, bool sync) {
    if (!fd_) return Fail(PathError(error_, "create", path_));
    if (auto written = WriteAll(fd_.get(), path_, content); !written) return written;
    if (::fchmod(fd_.get(), mode) != 0) return Fail(PathError(errno, "chmod", path_));
    if (sync && ::fsync(fd_.get()) != 0) return Fail(PathError(errno, "fsync", path_));
    return {};
  }
  Status RenameTo(const fs::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) return Fail(PathError(errno, "rename to", target));
    renamed_ = true;
    return {};
  }

 private:
  std::string path_;
  Fd fd_;
  int error_;
  bool renamed_ = false;
};

}  // namespace

Result<std::string> ReadSmallFile(const fs::path& path, std::size_t max_bytes) {
  // O_NONBLOCK: opening a FIFO somebody put there must not hang.
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return Fail(PathError(errno, "open", path));
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return Fail(PathError(errno, "stat", path));
  if (!S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("open {}: not a regular file", path.string()));
  }
  return ReadAll(fd.get(), path, max_bytes);
}

Result<std::string> ReadKernelFile(const fs::path& path, std::size_t max_bytes) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return Fail(PathError(errno, "open", path));
  return ReadAll(fd.get(), path, max_bytes);
}

Status ReplaceFile(const fs::path& path, std::string_view content, mode_t mode) {
  TemporaryFile file(path);
  if (auto written = file.Write(content, mode, true); !written) return written;
  if (auto renamed = file.RenameTo(path); !renamed) return renamed;
  return SyncDirectory(DirectoryOf(path));
}

Status ReplaceFileUntilReboot(const fs::path& path, std::string_view content, mode_t mode) {
  TemporaryFile file(path);
  if (auto written = file.Write(content, mode, false); !written) return written;
  return file.RenameTo(path);
}

Status OverwriteFile(const fs::path& path, std::string_view content) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return Fail(PathError(errno, "open", path));
  // Cut after writing: a reader in between sees old or new bytes, never an empty file.
  if (auto written = WriteAll(fd.get(), path, content); !written) return written;
  if (::ftruncate(fd.get(), static_cast<off_t>(content.size())) != 0) return Fail(PathError(errno, "truncate", path));
  return {};
}

Status RemoveFile(const fs::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return Fail(PathError(errno, "unlink", path));
  return {};
}

Status MakeDirectories(const fs::path& path, mode_t mode) {
  fs::path made;
  for (const fs::path& part : path) {
    made /= part;
    if (::mkdir(made.c_str(), mode) == 0 || errno == EEXIST) continue;
    // A parent may exist although we may not create in it (EROFS, EACCES).
    const int error = errno;
    std::error_code ignored;
    if (!fs::is_directory(made, ignored)) return Fail(PathError(error, "mkdir", made));
  }
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return Fail(PathError(ENOTDIR, "mkdir", path));
  return {};
}

bool IsSafePathComponent(std::string_view name) {
  if (name.empty() || name.size() > 253 || name == "." || name == "..") return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
}

bool IsUuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (dash ? c != '-' : !hex) return false;
  }
  return true;
}

}  // namespace cd
