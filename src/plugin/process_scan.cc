#include "src/plugin/process_scan.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <optional>

#include "src/base/files.h"

namespace cd::plugin {

namespace fs = std::filesystem;

namespace {

std::string_view NextField(std::string_view& line) {
  const std::size_t end = line.find(' ');
  const std::string_view field = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return field;
}

std::optional<pid_t> PidOf(const fs::path& entry) {
  const std::string name = entry.filename().string();
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

// Containers of pods run in cgroups named after the pod, whoever drives them. The file is readable without any privilege; the
// path may be told relative to our own cgroup, so only the pod's part of it can be expected.
bool InPodCgroup(const fs::path& process) {
  const auto text = ReadKernelFile(process / "cgroup", 1 << 20);
  return text && text->find("pod") != std::string::npos;
}

// Target of one of a process' links; empty when it is gone or a zombie, which has no mounts any more.
Result<std::string> LinkOf(const fs::path& process, const char* name) {
  char target[PATH_MAX];
  const ssize_t size = ::readlink((process / name).c_str(), target, sizeof target);
  if (size >= 0) return std::string(target, static_cast<std::size_t>(size));
  if (errno == ENOENT || errno == ESRCH) return std::string();
  return Fail(ErrnoError(errno, "read " + (process / name).string() + " (is CAP_SYS_PTRACE missing?)"));
}

struct Process {
  pid_t pid;
  std::string mounts;  // name of its mount namespace
};

// mountinfo tells what lies below the reading process' root, so a process that changed its root may hide what its namespace has.
struct Mounts {
  std::set<std::string> roots;    // those a process was read for
  std::set<std::string> markers;  // seen from any of them
  bool whole = false;             // one of them was the namespace's own root
};

}  // namespace

std::set<std::string> MarkersIn(std::string_view mountinfo, std::string_view claims_dir_name) {
  constexpr std::string_view kSuffix = ".json";
  constexpr std::string_view kDeleted = "//deleted";
  std::set<std::string> found;
  while (!mountinfo.empty()) {
    const std::size_t end = mountinfo.find('\n');
    std::string_view line = mountinfo.substr(0, end);
    mountinfo.remove_prefix(end == std::string_view::npos ? mountinfo.size() : end + 1);
    for (int skipped = 0; skipped < 3; ++skipped) NextField(line);  // mount ID, parent ID, device
    std::string_view root = NextField(line);
    if (root.ends_with(kDeleted)) root.remove_suffix(kDeleted.size());
    if (!root.ends_with(kSuffix)) continue;
    root.remove_suffix(kSuffix.size());
    const std::size_t slash = root.rfind('/');
    if (slash == std::string_view::npos) continue;
    const std::string_view directory = root.substr(0, slash);
    const std::string uid(root.substr(slash + 1));
    const bool in_claims = directory.ends_with(claims_dir_name) && directory.size() > claims_dir_name.size() &&
                           directory[directory.size() - claims_dir_name.size() - 1] == '/';
    if (in_claims && IsSafePathComponent(uid)) found.insert(uid);
  }
  return found;
}

Result<std::map<std::string, std::vector<pid_t>>> ScanProcesses(const fs::path& proc_root, const std::set<std::string>& claims) {
  std::vector<Process> processes;
  std::map<std::string, Mounts> namespaces;
  std::error_code error;
  for (fs::directory_iterator it(proc_root, error), end; !error && it != end; it.increment(error)) {
    const auto pid = PidOf(it->path());
    if (!pid) continue;
    const auto ns = LinkOf(it->path(), "ns/mnt");
    if (!ns && InPodCgroup(it->path())) return Fail(ns.error());
    if (!ns || ns->empty()) continue;  // what runs in no pod was granted nothing
    const auto root = LinkOf(it->path(), "root");
    if (!root || root->empty()) continue;  // it ended meanwhile
    processes.push_back({*pid, *ns});
    Mounts& mounts = namespaces[*ns];
    if (mounts.roots.contains(*root)) continue;
    const auto text = ReadKernelFile(it->path() / "mountinfo", 16 << 20);
    if (!text) continue;  // it ended meanwhile; another process of the namespace will be read
    mounts.roots.insert(*root);
    mounts.markers.merge(MarkersIn(*text));
    mounts.whole = mounts.whole || *root == "/";
  }
  if (error) return Fail(ErrorCode::kInternal, "read " + proc_root.string() + ": " + error.message());

  std::map<std::string, std::vector<pid_t>> holders;
  for (const Process& process : processes) {
    const Mounts& mounts = namespaces[process.mounts];
    const bool may_hide = !mounts.whole && InPodCgroup(proc_root / std::to_string(process.pid));
    for (const std::string& uid : claims) {
      if (may_hide || mounts.markers.contains(uid)) holders[uid].push_back(process.pid);
    }
  }
  return holders;
}

}  // namespace cd::plugin
