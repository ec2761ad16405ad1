"""The driver's pods and their processes, found and killed as a fault would."""

from __future__ import annotations

import os
import signal

from lab import rollout
from lab.client import DAEMON_SET, POD, Cluster, Object, wait_until

from .conftest import DRIVER_NAMESPACE
from .node_files import processes_of_pod

PROGRAMS = {"controller": "compute-domain-controller", "kubelet-plugin": "compute-domain-kubelet-plugin", "daemon": "compute-domain-daemon"}
PLUGIN_SET = "compute-domain-kubelet-plugin"


def pods_of(cluster: Cluster, component: str, node: str = "") -> list[Object]:
    """All pods of a component, or those on one node."""
    pods = cluster.list(POD, DRIVER_NAMESPACE, labelSelector=f"app.kubernetes.io/component={component}")
    return [pod for pod in pods if not node or pod["spec"].get("nodeName") == node]


def plugins_rolled_out(cluster: Cluster, nodes: list[str]) -> bool:
    """One plugin on each of these nodes, as its DaemonSet says now; those of before are gone."""
    lack = rollout.missing(cluster.get(DAEMON_SET, PLUGIN_SET, DRIVER_NAMESPACE), wanted=len(nodes))
    return not lack and len(pods_of(cluster, "kubelet-plugin")) == len(nodes)


def imex_processes(cluster: Cluster) -> dict[str, list[int]]:
    """node → PIDs of its nvidia-imex."""
    return {pod["spec"]["nodeName"]: processes_of_pod(pod["metadata"]["uid"], "nvidia-imex") for pod in pods_of(cluster, "daemon")}


def kill(pids: list[int], what: str) -> None:
    """SIGKILL; returns when all are dead."""
    assert pids, f"no process of {what} found"
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # ended by itself a moment ago

    def all_dead() -> bool:
        return not any(os.path.exists(f"/proc/{pid}") for pid in pids)

    wait_until(all_dead, f"the killed processes of {what} gone", 20)


def kill_all(cluster: Cluster, component: str, node: str = "") -> None:
    """SIGKILL to a component's program, everywhere or on one node."""
    kill([pid for pod in pods_of(cluster, component, node) for pid in processes_of_pod(pod["metadata"]["uid"], PROGRAMS[component])],
         component)
