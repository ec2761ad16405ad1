// Files as this project uses them: small, read whole, replaced whole.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace cd {

// Regular files only, O_NOFOLLOW, at most `max_bytes` (more is an error, not a cut). ENOENT is kNotFound.
Result<std::string> ReadSmallFile(const std::filesystem::path& path, std::size_t max_bytes = 1 << 20);
// For /proc and the like: follows symlinks, any file type, same limit.
Result<std::string> ReadKernelFile(const std::filesystem::path& path, std::size_t max_bytes = 4 << 20);

// Temporary file in the same directory, fsync, rename, fsync of the directory: after a crash the old or the new content stands,
// whole.
Status ReplaceFile(const std::filesystem::path& path, std::string_view content, mode_t mode = 0600);
// The same without the syncs (each may take tens of milliseconds), for what means nothing after a reboot: a crash of the process
// leaves the old or the new content, whole; a power cut may leave an empty file.
Status ReplaceFileUntilReboot(const std::filesystem::path& path, std::string_view content, mode_t mode = 0600);
// Rewrites in place without a new inode (for bind-mounted files such as /etc/hosts). Not crash-safe.
Status OverwriteFile(const std::filesystem::path& path, std::string_view content);
// A missing file is success.
Status RemoveFile(const std::filesystem::path& path);
Status MakeDirectories(const std::filesystem::path& path, mode_t mode = 0755);

// A name that came from outside and becomes one component of a path: 1–253 of [A-Za-z0-9._-], not "." or "..".
bool IsSafePathComponent(std::string_view name);
// RFC 4122 text form in lower case, as the API server makes UIDs.
bool IsUuid(std::string_view text);

}  // namespace cd
