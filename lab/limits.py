"""Limits of the machine that a lab would otherwise run into half-way, each component in its own words."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from lab.errors import LabError

PROC = Path("/proc")
INOTIFY_LIMIT = PROC / "sys" / "fs" / "inotify" / "max_user_instances"

# Counted in a lab with the driver installed: kubelet 6, containerd 2, kube-proxy 1, the driver 3; the control plane 8.
INOTIFY_OF_A_NODE = 12
INOTIFY_OF_THE_REST = 10


def check_inotify(nodes: int, own: Collection[int], proc: Path = PROC, limit_file: Path = INOTIFY_LIMIT) -> None:
    """Refuses a lab of that size if its inotify instances, beside those of all processes but `own`, exceed the machine's limit."""
    limit = int(limit_file.read_text())
    others = inotify_instances(proc, without=own)
    needed = nodes * INOTIFY_OF_A_NODE + INOTIFY_OF_THE_REST
    if others + needed <= limit:
        return
    raise LabError(
        f"{nodes} nodes take about {needed} inotify instances, other processes have {others}, and root may have {limit} in all: "
        f"run `sysctl -w fs.inotify.max_user_instances={max(512, others + 2 * needed)}`, take fewer nodes, or take another lab down"
    )


def inotify_instances(proc: Path, without: Collection[int]) -> int:
    """Of all processes of this user; what ends meanwhile has none."""
    return sum(_of_process(folder) for folder in proc.iterdir() if folder.name.isdigit() and int(folder.name) not in without)


def _of_process(folder: Path) -> int:
    try:
        return sum(_target(link) == "anon_inode:inotify" for link in (folder / "fd").iterdir())
    except OSError:
        return 0


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
