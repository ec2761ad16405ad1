// Where plugin and daemon keep their two files. They lie in two directories that the plugin owns on the host and mounts into the
// daemon's container: `desired` read-only, `status` writable. Files are replaced whole (watch the directory for IN_MOVED_TO).
//
//   desired/desired.json   see daemon_files.h
//   status/status.json     see daemon_files.h
//   status/daemon.lock     flock held by a living daemon: a status.json without it was left behind
//
// Everywhere `dir` is what holds both directories.
#pragma once

#include <filesystem>

#include "src/base/fd.h"
#include "src/base/result.h"
#include "src/fabric/daemon_files.h"

namespace cd::fabric {

std::filesystem::path DesiredPath(const std::filesystem::path& dir);  // dir/desired/desired.json
std::filesystem::path StatusPath(const std::filesystem::path& dir);   // dir/status/status.json

// kNotFound: not written yet. The directory must exist for writing.
Result<Desired> ReadDesired(const std::filesystem::path& dir);
Status WriteDesired(const std::filesystem::path& dir, const Desired& desired);
Result<DaemonStatus> ReadDaemonStatus(const std::filesystem::path& dir);
Status WriteDaemonStatus(const std::filesystem::path& dir, const DaemonStatus& status);

// The daemon's side: the lock, for as long as the Fd lives. kFailedPrecondition: another daemon holds it.
Result<Fd> LockDaemon(const std::filesystem::path& dir);
// The plugin's side, at any time: true while some daemon holds the lock.
bool DaemonAlive(const std::filesystem::path& dir);

}  // namespace cd::fabric
