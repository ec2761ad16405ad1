"""What lies on a node's disk and runs on it, seen from outside the driver."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.identity import CHECKOUT

PLUGIN_DIR = "/var/lib/kubelet/plugins/compute-domain.nvidia.com"
CDI_DIR = "/var/run/cdi"


def lab(*arguments: str, check: bool = True, timeout: float = 120) -> str:
    """Runs a command of the lab; its output."""
    result = subprocess.run([str(CHECKOUT / "lab" / "lab"), *arguments], capture_output=True, text=True, timeout=timeout, check=False)
    assert not check or result.returncode == 0, f"lab {' '.join(arguments)}: {result.stderr}"
    return result.stdout


def on_node(node: str, *command: str) -> str:
    return lab("node-exec", node, *command)


def cdi_files(node: str) -> list[str]:
    """Names of the CDI specs of this driver."""
    return [name for name in on_node(node, "ls", CDI_DIR).split() if "compute-domain" in name]


def checkpoint(node: str) -> dict[str, Any]:
    return json.loads(on_node(node, "cat", f"{PLUGIN_DIR}/checkpoint.json"))


def checkpoint_claims(node: str) -> list[str]:
    """UIDs of the claims the checkpoint says are prepared or still held by a process."""
    entries = checkpoint(node)
    prepared = [entry["claim"]["uid"] for entry in entries["claims"]]
    return sorted(prepared + [entry["claimUID"] for entry in entries["lingering"]])


def lingering_claims(node: str) -> list[str]:
    """UIDs of the claims that were unprepared, and whose processes may live on."""
    return sorted(entry["claimUID"] for entry in checkpoint(node)["lingering"])


def processes() -> Iterator[tuple[int, str, str]]:
    """(PID, name of the program, cgroups) of all that runs on this machine, and hence on any node of the lab."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            yield int(entry.name), Path(os.readlink(entry / "exe")).name, (entry / "cgroup").read_text()
        except OSError:
            continue  # ended meanwhile, or a thread of the kernel


def processes_of_pod(pod_uid: str, program: str) -> list[int]:
    """PIDs of a program in a pod's containers, found by the pod's cgroup."""
    return sorted(pid for pid, name, cgroups in processes() if name == program and f"pod{pod_uid}" in cgroups)
