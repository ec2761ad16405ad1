"""The lab under test, by its command line only, and what it may leave behind.

It is an instance of its own and runs beside whatever other labs are up.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from lab.cgroups import hierarchies
from lab.identity import CHECKOUT, Identity
from lab.processes import Process

INSTANCE = "test-lab"
IDENTITY = Identity(CHECKOUT, INSTANCE)
EMULATOR = Path(os.environ.get("EMULATOR_DIR", CHECKOUT / "build" / "release" / "emulator"))
FOLDERS = [
    IDENTITY.state_root,
    *map(Path, ("/etc", "/opt", "/run", "/usr/libexec", "/var/lib", "/var/log")),
]
OF_A_LAB = rf"kube|cni|containerd|cdi|nri|runc|mnnvl|nvidia|/pods|{IDENTITY.name}"


def lab(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [str(CHECKOUT / "lab" / "lab"), "--instance", INSTANCE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"lab {' '.join(arguments)}: {done.stderr}"
    return done


def kubectl(*arguments: str) -> str:
    return lab("kubectl", *arguments).stdout


def in_pod(pod: str, script: str) -> str:
    return kubectl("exec", pod, "--", "sh", "-c", script)


def names_in(*folders: Path) -> set[str]:
    return {str(path) for folder in folders if folder.exists() for path in folder.iterdir()}


def traces() -> dict[str, set[str]]:
    """What a lab could leave on the machine."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True)
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    cgroups = {
        folder
        for hierarchy in hierarchies()
        for folder, _, _ in os.walk(hierarchy.mount)
        if IDENTITY.name in folder or folder.endswith("/k8s.io")
    }
    return {
        "network namespaces": names_in(Path("/run/netns")),
        "links": {line.split(": ")[1] for line in links.stdout.splitlines()},
        "rules": {line for line in rules.stdout.splitlines() if not re.match("[#:]", line)},
        "mounts": {line for line in mounts if "lab" in line or "kube" in line or "netns" in line},
        "processes": {name for pid in pids if (name := _name_in_lab(pid))},
        "cgroups": cgroups,
        "folders": {path for path in names_in(*FOLDERS) if re.search(OF_A_LAB, path)},
    }


def _name_in_lab(pid: int) -> str:
    """The name of a live process that belongs to this lab or escaped from it."""
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text()
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
    ours = IDENTITY.name in groups or "/k8s.io" in groups
    return f"{name} ({pid})" if ours and Process.of(pid) else ""


def pod(name: str, node: str, *command: str) -> dict[str, Any]:
    container = {"name": "main", "image": "localhost/busybox:lab", "imagePullPolicy": "Never"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "containers": [container | ({"command": list(command)} if command else {})],
        },
    }


def create_pods(tmp_path: Path, *pods: dict[str, Any]) -> None:
    manifest = tmp_path / "pods.json"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    kubectl("apply", "-f", str(manifest))
    names = [f"pod/{item['metadata']['name']}" for item in pods]
    kubectl("wait", "--for=condition=Ready", "--timeout=60s", *names)


def pod_address(name: str) -> str:
    return kubectl("get", "pod", name, "-o", "jsonpath={.status.podIP}")


def processes() -> dict[str, str]:
    """Pid by program, as `lab status` shows them."""
    found = re.findall(r"^(\S+) +(\d+|-)  +\S+", lab("status").stdout, re.MULTILINE)
    return {name: pid for name, pid in found if name != "PROGRAM"}


def boot_id(node: str) -> str:
    return kubectl("get", "node", node, "-o", "jsonpath={.status.nodeInfo.bootID}")


def emulator_options() -> list[str]:
    return ["--emulator", str(EMULATOR)] if EMULATOR.is_dir() else ["--without-emulator"]


def majors(node: str) -> list[str]:
    match = re.search(rf"{node}: majors (\d+) .*?, (\d+) ", lab("status").stdout)
    assert match is not None
    return list(match.groups())
