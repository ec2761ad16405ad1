// An exclusive lock between processes: flock on a file of its own, which is made where it is missing and stays behind.
#pragma once

#include <filesystem>

#include "src/base/fd.h"
#include "src/base/result.h"

namespace cd {

// Does not wait. An empty Fd: somebody else holds it. Held as long as the Fd lives, at the longest as long as the process.
Result<Fd> TryLockFile(const std::filesystem::path& path);

}  // namespace cd
