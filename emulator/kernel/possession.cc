#include "emulator/kernel/possession.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <sstream>

#include "emulator/base/files.h"

namespace emu::kernel {
namespace {

constexpr int kProbeTimeoutMs = 5000;

// Opens `path` inside the root directory of `pid`; no symbolic link leads out of it.
UniqueFd OpenInRootOf(pid_t pid, const std::string& path) {
  const UniqueFd root(::open(("/proc/" + std::to_string(pid) + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return {};
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
}

bool ModeGrants(const struct stat& node, const Caller& caller) {
  if (caller.uid == 0) return true;
  if (node.st_uid == caller.uid) return node.st_mode & S_IRUSR;
  if (node.st_gid == caller.gid) return node.st_mode & S_IRGRP;
  return node.st_mode & S_IROTH;
}

// Runs in the child: joins the cgroup and reports one byte for each descriptor: 1 granted, 0 not, 2 cannot tell.
[[noreturn]] void ProbeInChild(const std::string& procs, const std::vector<UniqueFd>& nodes, int report) {
  const int join = ::open(procs.c_str(), O_WRONLY | O_CLOEXEC);
  if (join < 0 || ::write(join, "0", 1) != 1) ::_exit(errno == 0 ? 1 : errno);
  for (const UniqueFd& node : nodes) {
    const std::string path = "/proc/self/fd/" + std::to_string(node.get());
    const int opened = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const char verdict = opened >= 0 || errno == ENXIO || errno == ENODEV ? 1 : errno == EPERM ? 0 : 2;
    if (opened >= 0) ::close(opened);
    if (::write(report, &verdict, 1) != 1) ::_exit(EPIPE);
  }
  ::_exit(0);
}

// All the child says. A child that got stuck (its cgroup may be frozen) is killed, and its silence is no permission.
std::string ReadVerdicts(const UniqueFd& reader, pid_t child) {
  std::string verdicts;
  char buffer[256];
  pollfd waiting{reader.get(), POLLIN, 0};
  while (true) {
    const int ready = ::poll(&waiting, 1, kProbeTimeoutMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) ::kill(child, SIGKILL);
    const ssize_t n = ready > 0 ? ::read(reader.get(), buffer, sizeof buffer) : 0;
    if (n <= 0) return verdicts;
    verdicts.append(buffer, static_cast<size_t>(n));
  }
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool Contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct Mount {
  std::string root, point;
};

// A line of mountinfo: ID, parent, device, root, mount point, options, optional fields, "-", type, source, super options.
bool FindCgroupMount(const std::string& mountinfo, bool unified, Mount* found) {
  for (const std::string& line : Split(mountinfo, '\n')) {
    const std::vector<std::string> fields = Split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 6 || fields.end() - dash < 4) continue;
    const bool match = unified ? dash[1] == "cgroup2" : dash[1] == "cgroup" && Contains(Split(dash[3], ','), "devices");
    if (!match) continue;
    *found = {fields[3], fields[4]};
    return true;
  }
  return false;
}

}  // namespace

Result<std::vector<unsigned>> DeviceNodes(const Caller& caller, const std::string& directory, unsigned major) {
  UniqueFd fd = OpenInRootOf(caller.pid, directory);
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ESRCH) return std::vector<unsigned>{};
    return FailErrno("cannot look into " + directory + " of process " + std::to_string(caller.pid));
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(::dup(fd.get())), &::closedir);
  if (!stream) return FailErrno("cannot list " + directory);
  std::vector<unsigned> minors;
  while (const dirent* entry = ::readdir(stream.get())) {
    struct stat node;
    if (::fstatat(fd.get(), entry->d_name, &node, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISCHR(node.st_mode) || ::major(node.st_rdev) != major || !ModeGrants(node, caller)) continue;
    minors.push_back(::minor(node.st_rdev));
  }
  std::sort(minors.begin(), minors.end());
  minors.erase(std::unique(minors.begin(), minors.end()), minors.end());
  return minors;
}

Result<std::string> DeviceCgroupProcs(const std::string& cgroup, const std::string& mountinfo) {
  std::string v1, v2;
  for (const std::string& line : Split(cgroup, '\n')) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (Contains(Split(controllers, ','), "devices")) v1 = line.substr(second + 1);
    if (controllers.empty()) v2 = line.substr(second + 1);
  }
  // Where v1 manages devices, it alone does.
  const bool unified = v1.empty();
  std::string path = unified ? v2 : v1;
  Mount mount;
  if (path.empty() || !FindCgroupMount(mountinfo, unified, &mount)) return Fail("no device cgroup found");
  if (mount.root != "/") {
    if (!path.starts_with(mount.root)) return Fail("cgroup " + path + " lies outside the mounted " + mount.root);
    path.erase(0, mount.root.size());
  }
  return mount.point + (path == "/" ? "" : path) + "/cgroup.procs";
}

Result<std::string> DeviceCgroupProcs(pid_t pid) {
  const auto cgroup = ReadFile("/proc/" + std::to_string(pid) + "/cgroup");
  if (!cgroup) return tl::unexpected(cgroup.error());
  const auto mountinfo = ReadFile("/proc/self/mountinfo");
  if (!mountinfo) return tl::unexpected(mountinfo.error());
  return DeviceCgroupProcs(*cgroup, *mountinfo);
}

// A device node that exists only as an open descriptor: made, opened without using the device, and removed.
Result<UniqueFd> CgroupProbe::HiddenNode(unsigned major, unsigned minor) const {
  const std::string path =
      scratch_ + "/.probe-" + std::to_string(::getpid()) + "-" + std::to_string(major) + "-" + std::to_string(minor);
  ::unlink(path.c_str());
  if (::mknod(path.c_str(), S_IFCHR | 0600, ::makedev(major, minor)) != 0)
    return FailErrno("cannot make a device in " + scratch_);
  UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  const int error = errno;
  ::unlink(path.c_str());
  errno = error;
  if (!fd.valid()) return FailErrno("cannot refer to the device " + path);
  return fd;
}

Result<void> CgroupProbe::SelfTest(unsigned major) const {
  const auto node = HiddenNode(major, 0);
  if (!node) return tl::unexpected(node.error());
  const UniqueFd opened(::open(("/proc/self/fd/" + std::to_string(node->get())).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (opened.valid() || errno == ENXIO || errno == ENODEV) return {};
  return FailErrno("devices in " + scratch_ + " cannot be used (mounted nodev, or this process is confined)");
}

Result<std::vector<unsigned>> CgroupProbe::Granted(const Caller& caller, unsigned major,
                                                   const std::vector<unsigned>& minors) const {
  if (minors.empty()) return std::vector<unsigned>{};
  const auto procs = DeviceCgroupProcs(caller.pid);
  if (!procs) return tl::unexpected(procs.error());
  std::vector<UniqueFd> nodes;
  for (unsigned minor : minors) {
    auto node = HiddenNode(major, minor);
    if (!node) return tl::unexpected(node.error());
    nodes.push_back(*std::move(node));
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return FailErrno("cannot make a pipe");
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return FailErrno("cannot fork");
  if (child == 0) ProbeInChild(*procs, nodes, writer.get());
  writer.Close();
  const std::string verdicts = ReadVerdicts(reader, child);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || verdicts.size() != minors.size()) {
    return Fail("cannot probe cgroup " + *procs + ": " + std::strerror(WIFEXITED(status) ? WEXITSTATUS(status) : EINTR));
  }
  std::vector<unsigned> granted;
  for (size_t i = 0; i < minors.size(); ++i) {
    if (verdicts[i] == 1) granted.push_back(minors[i]);
  }
  return granted;
}

Result<std::vector<unsigned>> Possessed(const CgroupProbe& probe, const Caller& caller, const std::string& directory,
                                        unsigned major) {
  const auto nodes = DeviceNodes(caller, directory, major);
  if (!nodes) return tl::unexpected(nodes.error());
  return probe.Granted(caller, major, *nodes);
}

Result<bool> Possesses(const CgroupProbe& probe, const Caller& caller, const std::string& directory, unsigned major,
                       unsigned minor) {
  const auto nodes = DeviceNodes(caller, directory, major);
  if (!nodes) return tl::unexpected(nodes.error());
  if (!std::binary_search(nodes->begin(), nodes->end(), minor)) return false;
  const auto granted = probe.Granted(caller, major, {minor});
  if (!granted) return tl::unexpected(granted.error());
  return !granted->empty();
}

}  // namespace emu::kernel
