#include "emulator/base/files.h"

#include <fcntl.h>

#include <cerrno>

#include "emulator/base/unique_fd.h"

namespace emu {

Result<std::string> ReadFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return FailErrno("cannot open " + path);
  std::string text;
  char buffer[4096];
  while (true) {
    ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailErrno("cannot read " + path);
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

Result<void> WriteFileAtomically(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return FailErrno("cannot create " + temporary);
  size_t done = 0;
  while (done < text.size()) {
    ssize_t n = ::write(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      auto failure = FailErrno("cannot write " + temporary);
      ::unlink(temporary.c_str());
      return failure;
    }
    done += static_cast<size_t>(n);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    auto failure = FailErrno("cannot rename to " + path);
    ::unlink(temporary.c_str());
    return failure;
  }
  return {};
}

}  // namespace emu
