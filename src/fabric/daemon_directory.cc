#include "src/fabric/daemon_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "src/base/file_lock.h"
#include "src/base/files.h"

namespace cd::fabric {
namespace {

std::filesystem::path LockPath(const std::filesystem::path& dir) {
  return dir / "status" / "daemon.lock";
}

}  // namespace

std::filesystem::path DesiredPath(const std::filesystem::path& dir) {
  return dir / "desired" / "desired.json";
}
std::filesystem::path StatusPath(const std::filesystem::path& dir) {
  return dir / "status" / "status.json";
}

Result<Desired> ReadDesired(const std::filesystem::path& dir) {
  const auto text = ReadSmallFile(DesiredPath(dir), kMaxDaemonFile);
  if (!text) return Fail(text.error());
  auto desired = DecodeDesired(*text);
  if (!desired) return Fail(Annotate(desired.error(), DesiredPath(dir).string()));
  return desired;
}

Status WriteDesired(const std::filesystem::path& dir, const Desired& desired) {
  const std::string text = EncodeDesired(desired);
  // What the daemon would refuse must not replace what it runs on.
  if (const auto readable = DecodeDesired(text); !readable)
    return Fail(Annotate(readable.error(), "desired state of the daemon"));
  return ReplaceFile(DesiredPath(dir), text);
}

Result<DaemonStatus> ReadDaemonStatus(const std::filesystem::path& dir) {
  const auto text = ReadSmallFile(StatusPath(dir), kMaxDaemonFile);
  if (!text) return Fail(text.error());
  auto status = DecodeDaemonStatus(*text);
  if (!status) return Fail(Annotate(status.error(), StatusPath(dir).string()));
  return status;
}

Status WriteDaemonStatus(const std::filesystem::path& dir, const DaemonStatus& status) {
  return ReplaceFile(StatusPath(dir), EncodeDaemonStatus(status));
}

Result<Fd> LockDaemon(const std::filesystem::path& dir) {
  const std::filesystem::path path = LockPath(dir);
  auto fd = TryLockFile(path);
  if (fd && !*fd) return Fail(ErrorCode::kFailedPrecondition, "another daemon of this node holds " + path.string());
  return fd;
}

bool DaemonAlive(const std::filesystem::path& dir) {
  // O_NONBLOCK: the daemon could have put a FIFO there, which must not hang its reader.
  const Fd fd(::open(LockPath(dir).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info;
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  // A shared lock is refused only while the daemon holds its exclusive one; a taken one goes with the descriptor.
  return ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace cd::fabric
