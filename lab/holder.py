"""Makes a set of namespaces and keeps it: the process behind `Namespaces`.

    python -m lab.holder NAME                        the control plane: network only
    python -m lab.holder NAME HOSTNAME NODE_FOLDER   a node: network, mounts, host name

Prints `ready`, then becomes a sleeping process with a telling name.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from lab import namespaces as ns

SLEEP = "/usr/bin/sleep"

# Folder of the node's state → where the node sees it. /run is a tmpfs of the
# node's own, as on a real host: what lives there is gone after a reboot.
NODE_BINDS = {
    "config": "/run/lab/config",
    "mnnvl": "/run/mnnvl",
    "driver": "/run/nvidia/driver",
    "var-lib": "/var/lib",
    "var-log": "/var/log",
}

DEVICES = ("full", "fuse", "kmsg", "null", "ptmx", "random", "tty", "urandom", "zero")
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}


def build_node(folder: Path, programs: Path) -> None:
    """Gives this process its own view of the machine's file system.

    Everything is shared *within* the node's mount namespace and private to the
    outside: mounts propagate between the node and its containers (HostToContainer,
    Bidirectional) and never reach the machine.
    """
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE)
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_SHARED)
    # Open before the mounts below hide the paths.
    sources = {name: os.open(folder / name, os.O_PATH) for name in NODE_BINDS}
    programs_fd = os.open(programs, os.O_PATH)
    ns.mount("tmpfs", "/run", "tmpfs", data="mode=755")
    for name, target in NODE_BINDS.items():
        ns.bind(f"/proc/self/fd/{sources[name]}", target)
    ns.bind(f"/proc/self/fd/{programs_fd}", "/run/lab/bin")
    for path in ("/run/lock", "/run/netns"):
        os.makedirs(path)
    build_devices()
    for descriptor in (*sources.values(), programs_fd):
        os.close(descriptor)


def build_devices() -> None:
    """A /dev of the node's own: device nodes made here never reach the machine."""
    numbers = {}
    for name in DEVICES:
        if os.path.exists(f"/dev/{name}"):
            status = os.stat(f"/dev/{name}")
            numbers[name] = (status.st_mode, status.st_rdev)
    terminals = os.open("/dev/pts", os.O_PATH)
    ns.mount("tmpfs", "/dev", "tmpfs", data="mode=755")
    for name, (mode, number) in numbers.items():
        os.mknod(f"/dev/{name}", mode, number)
        os.chmod(f"/dev/{name}", mode & 0o777)  # whatever the umask
    for name, target in DEVICE_LINKS.items():
        os.symlink(target, f"/dev/{name}")
    ns.bind(f"/proc/self/fd/{terminals}", "/dev/pts")
    os.close(terminals)
    os.mkdir("/dev/shm")
    ns.mount("tmpfs", "/dev/shm", "tmpfs", data="mode=1777")
    os.mkdir("/dev/mqueue")
    ns.mount("mqueue", "/dev/mqueue", "mqueue")


def main() -> None:
    name, *node = sys.argv[1:]
    if node:
        hostname, folder, programs = node
        ns.unshare(ns.CLONE_NEWNET | ns.CLONE_NEWNS | ns.CLONE_NEWUTS)
        socket.sethostname(hostname)
        build_node(Path(folder), Path(programs))
    else:
        ns.unshare(ns.CLONE_NEWNET)
    print("ready", flush=True)
    os.chdir("/")
    os.execv(SLEEP, [name, "infinity"])


if __name__ == "__main__":
    main()
