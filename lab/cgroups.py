"""The lab's own cgroups: bookkeeping of processes, and the pods' parent.

Every process of the lab, containers and their shims included, is below one
cgroup named after the lab. That is how a stop finds what no pid file names.
Works with cgroup v2, v1 and the hybrid of both.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.errors import LabError
from lab.processes import POLL_SECONDS, STOP_SECONDS, Process


@dataclass(frozen=True)
class Hierarchy:
    mount: Path
    version: int
    options: frozenset[str]


def hierarchies() -> list[Hierarchy]:
    """All mounted cgroup hierarchies."""
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, options, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            version = 2 if kind == "cgroup2" else 1
            found.append(Hierarchy(Path(mount), version, frozenset(options.split(","))))
    if not found:
        raise LabError("no cgroup file system is mounted; the lab needs one", component="cgroups")
    return found


def tracking_hierarchy(mounted: list[Hierarchy]) -> Hierarchy:
    """The one hierarchy whose membership lists the lab's processes.

    With v1 containers join only v1 hierarchies, so the unified one of a hybrid
    machine would not list them; name=systemd and pids need no set-up.
    """
    for wanted in ("name=systemd", "pids"):
        for hierarchy in mounted:
            if hierarchy.version == 1 and wanted in hierarchy.options:
                return hierarchy
    return mounted[0]


class CgroupTree:
    """All cgroups below `/<name>` in every hierarchy."""

    def __init__(self, name: str):
        self.name = name
        self._mounted = hierarchies()
        self._tracking = tracking_hierarchy(self._mounted)

    @property
    def version(self) -> int:
        """The version that runc and the kubelet will use."""
        return self._tracking.version

    def create(self, *path: str) -> Path:
        """Makes a cgroup for programs; returns the file a program joins by."""
        group = self._group(self._tracking, path)
        group.mkdir(parents=True, exist_ok=True)
        return group / "cgroup.procs"

    def create_parent(self, *path: str) -> str:
        """Makes a cgroup in which a kubelet makes its own; returns its name."""
        for hierarchy in self._mounted:
            group = self._group(hierarchy, path)
            group.mkdir(parents=True, exist_ok=True)
            if hierarchy.version == 2:
                _pass_on_controllers(hierarchy.mount, group)
        return "/" + "/".join((self.name, *path))

    def processes(self, *path: str) -> list[Process]:
        """Every live process at or below the cgroup."""
        found = []
        for group, _, _ in os.walk(self._group(self._tracking, path)):
            try:
                pids = (Path(group) / "cgroup.procs").read_text().split()
            except OSError:
                continue  # removed meanwhile
            found += [process for pid in pids if (process := Process.of(int(pid)))]
        return found

    def kill(self, *path: str) -> None:
        """Kills until nothing is left, since shims may start more meanwhile."""
        deadline = time.monotonic() + STOP_SECONDS
        while remaining := self.processes(*path):
            if time.monotonic() > deadline:
                pids = [process.pid for process in remaining]
                raise LabError(f"processes {pids} do not die", component="/".join(path))
            for process in remaining:
                process.kill_if(partial(self._is_member, process.pid, path))
            self._thaw(*path)
            time.sleep(POLL_SECONDS)

    def _thaw(self, *path: str) -> None:
        """A frozen process of v1 dies only once it is thawed; runc freezes to kill, and may itself be killed in between."""
        for hierarchy in self._mounted:
            if hierarchy.version == 1 and "freezer" in hierarchy.options:
                for group, _, _ in os.walk(self._group(hierarchy, path)):
                    try:
                        (Path(group) / "freezer.state").write_text("THAWED")
                    except OSError:
                        continue  # removed meanwhile

    def _is_member(self, pid: int, path: tuple[str, ...]) -> bool:
        ours = "/" + "/".join((self.name, *path))
        try:
            lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        except OSError:
            return False
        names = [line.split(":", 2)[2] for line in lines]
        return any(name == ours or name.startswith(ours + "/") for name in names)

    def remove(self, *path: str) -> None:
        """Removes the cgroups; the processes in them must be gone."""
        for hierarchy in self._mounted:
            deadline = time.monotonic() + STOP_SECONDS
            while not _remove_tree(self._group(hierarchy, path)):
                if time.monotonic() > deadline:
                    group = self._group(hierarchy, path)
                    raise LabError(f"cgroup {group} cannot be removed: still in use")
                time.sleep(POLL_SECONDS)

    def _group(self, hierarchy: Hierarchy, path: tuple[str, ...]) -> Path:
        return hierarchy.mount.joinpath(self.name, *path)


def _pass_on_controllers(mount: Path, group: Path) -> None:
    """With v2 a cgroup has only the controllers that all above it pass on."""
    for folder in reversed(group.parents):
        if not folder.is_relative_to(mount):
            continue
        available = (folder / "cgroup.controllers").read_text().split()
        wanted = " ".join(f"+{controller}" for controller in available)
        try:
            (folder / "cgroup.subtree_control").write_text(wanted)
        except OSError as error:
            raise LabError(
                f"cannot pass on {', '.join(available)} below {folder}: {error.strerror}; "
                "with cgroup v2 no process may be in a cgroup that passes controllers on",
                component="cgroups",
            ) from error


def _remove_tree(group: Path) -> bool:
    for folder, _, _ in os.walk(group, topdown=False):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return not group.exists()
