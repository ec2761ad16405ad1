// Which devices a process can really use, judged from outside.
//
// On hardware a client passes an open descriptor of the device, so access is decided by mount namespace, file permission
// and device cgroup. The emulated devices have no driver behind them and cannot be opened, so their kernel model looks for
// itself. Nothing the client says is believed: a device counts when a node of it lies in the client's own /dev and the
// client's device cgroup grants it. The second is found out by a short-lived child that moves into the client's cgroup and
// opens the device: ENXIO ("no such driver") comes only after the cgroup said yes, EPERM is its no.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "emulator/base/result.h"
#include "emulator/base/unique_fd.h"

namespace emu::kernel {

// Who asks: from SO_PEERCRED.
struct Caller {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};

// Character devices of `major` in `directory` of the caller's file system that the file's mode lets the caller read,
// by minor, sorted. A directory that does not exist has none.
Result<std::vector<unsigned>> DeviceNodes(const Caller& caller, const std::string& directory, unsigned major);

class CgroupProbe {
 public:
  // `scratch`: a directory where device nodes can be made and opened for a moment.
  explicit CgroupProbe(std::string scratch) : scratch_(std::move(scratch)) {}

  // Can this process itself make and open such a device? Without that, the probe could only say no.
  Result<void> SelfTest(unsigned major) const;

  // Those of `minors` that the cgroup of `caller` grants.
  Result<std::vector<unsigned>> Granted(const Caller& caller, unsigned major, const std::vector<unsigned>& minors) const;

 private:
  Result<UniqueFd> HiddenNode(unsigned major, unsigned minor) const;

  std::string scratch_;
};

// The cgroup.procs file of the cgroup that decides about the devices of `pid`: v1's devices hierarchy or the unified one.
Result<std::string> DeviceCgroupProcs(pid_t pid);
// The same from the texts of /proc/<pid>/cgroup and /proc/self/mountinfo.
Result<std::string> DeviceCgroupProcs(const std::string& cgroup, const std::string& mountinfo);

// Both conditions together.
Result<std::vector<unsigned>> Possessed(const CgroupProbe& probe, const Caller& caller, const std::string& directory,
                                        unsigned major);
Result<bool> Possesses(const CgroupProbe& probe, const Caller& caller, const std::string& directory, unsigned major,
                       unsigned minor);

}  // namespace emu::kernel
