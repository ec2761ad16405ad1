#include "src/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace cd {

Result<Fd> TryLockFile(const std::filesystem::path& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return Fail(ErrnoError(errno, "open " + path.string()));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno == EWOULDBLOCK) return Fd();
  return Fail(ErrnoError(errno, "lock " + path.string()));
}

}  // namespace cd
