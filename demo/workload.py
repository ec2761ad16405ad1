"""Pods that export GPU memory and say what they hold; shared by the demo and the end-to-end tests."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from lab.client import POD, Cluster, Object, pod_manifest, run_in_pod, wait_until

MNNVL = "/run/mnnvl/bin/mnnvl"
CHANNEL_DIR = "/dev/nvidia-caps-imex-channels"


@dataclass(frozen=True)
class Member:
    """A pod of a ComputeDomain on a node."""

    domain: str
    pod: str
    node: str

    @property
    def memory(self) -> str:
        """What the pod exports."""
        return f"memory of {self.pod}"


def exporter(member: Member, template: str) -> Object:
    """A pod that exports its memory as long as it runs; the handle is in its log."""
    return pod_manifest(member.pod, member.node, template, [MNNVL, "export", "--text", member.memory], labels={"demo": member.domain})


def is_running(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running"


def wait_running(cluster: Cluster, names: list[str], namespace: str, timeout: float = 90) -> None:
    """Returns when every pod runs; a pod that failed ends the wait at once."""

    def all_running() -> bool:
        pods = [cluster.get(POD, name, namespace) for name in names]
        dead = [p["metadata"]["name"] for p in pods if p["status"].get("phase") in ("Failed", "Succeeded")]
        assert not dead, f"pods ended instead of running: {dead}"
        return all(is_running(pod) for pod in pods)

    wait_until(all_running, f"pods {', '.join(names)} Running", timeout)


def handle_of(cluster: Cluster, pod: str, namespace: str) -> str:
    """The handle an exporter printed."""

    def first_line() -> str:
        lines = cluster.logs(pod, namespace).splitlines()
        return lines[0].split()[-1] if lines else ""

    return wait_until(first_line, f"an export handle in the log of {pod}", 30)


def channels_of(pod: str, namespace: str) -> list[int]:
    """The channel devices in the pod's container."""
    listing = run_in_pod(pod, "ls", CHANNEL_DIR, namespace=namespace)
    return sorted(int(name.removeprefix("channel")) for name in listing.stdout.split() if name.startswith("channel"))


def import_memory(pod: str, handle: str, namespace: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run_in_pod(pod, MNNVL, "import", *options, handle, namespace=namespace)


def forge_device_node(pod: str, channel: int, namespace: str) -> subprocess.CompletedProcess[str]:
    """Makes the node of a channel the pod was not granted, beside its own and with the right major number."""
    own = channels_of(pod, namespace)[0]
    numbers = run_in_pod(pod, "stat", "-c", "%t", f"{CHANNEL_DIR}/channel{own}", namespace=namespace)
    major = int(numbers.stdout.strip(), 16)
    return run_in_pod(pod, "mknod", f"{CHANNEL_DIR}/channel{channel}", "c", str(major), str(channel), namespace=namespace)
