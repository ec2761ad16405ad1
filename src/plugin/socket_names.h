// Names of the plugin's sockets. During a rolling update two instances run, so the pod's UID is part of each name: gRPC lets a
// second server steal a path silently, and removes the file under the survivor when the first one ends.
#pragma once

#include <filesystem>
#include <string>

#include "src/base/result.h"

namespace cd::plugin {

// A unix socket address holds 108 bytes with its terminator; gRPC takes 107 when written as `unix:<path>`.
inline constexpr std::size_t kMaxSocketPath = 107;

struct SocketNames {
  std::filesystem::path dra;  // <plugin dir>/dra.sock or dra-<uid>.sock
  std::filesystem::path
      registration;  // <registry dir>/<driver>-reg.sock, or with the UID, shortened to a hash where it does not fit
};

// `pod_uid` empty: the fixed names. Errors are kInvalidArgument: a UID that is no path component, a path that cannot fit.
Result<SocketNames> NameSockets(const std::string& driver, const std::string& pod_uid, const std::filesystem::path& plugin_dir,
                                const std::filesystem::path& registry_dir);

}  // namespace cd::plugin
