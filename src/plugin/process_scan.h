// Who still holds a channel: the processes of containers that were granted a claim, found by the claim's marker among their
// mounts. A device node that merely exists, in the host's /dev or a privileged container's, neither grants nor blocks anything.
#pragma once

#include <sys/types.h>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace cd::plugin {

// Claim UIDs whose marker is mounted in the mount namespace a mountinfo text describes. Pure. `claims_dir_name` is the last part
// of the markers' directory: a mounted file's path is told from the root of its file system, so only its tail can be compared. A
// deleted file still counts.
std::set<std::string> MarkersIn(std::string_view mountinfo, std::string_view claims_dir_name = "claims");

// By claim UID: the processes found. `proc_root` is a /proc of the host's PID namespace. Reads mountinfo once per mount
// namespace. An error means that nothing can be said: /proc is not readable, or a process' mounts are hidden (CAP_SYS_PTRACE is
// missing).
Result<std::map<std::string, std::vector<pid_t>>> ScanProcesses(const std::filesystem::path& proc_root,
                                                                const std::set<std::string>& claims);

}  // namespace cd::plugin
