"""Faults of the driver's own parts and of what it keeps on a node. None of them may be felt by a workload, but where a daemon ends."""

from __future__ import annotations

import os
import time

from lab.client import COMPUTE_DOMAIN, IMEX_NODE, POD, Cluster, Kind, Object, wait_until
from tests.e2e.conftest import DRIVER_NAMESPACE
from tests.e2e.driver_pods import PROGRAMS, imex_processes, kill, kill_all, pods_of
from tests.e2e.node_files import CDI_DIR, PLUGIN_DIR, on_node, processes_of_pod

from .stage import Stage, fault

LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
CHECKPOINT = f"{PLUGIN_DIR}/checkpoint.json"


@fault(sudden=True)
def kill_plugin(stage: Stage) -> None:
    kill_all(stage.cluster, "kubelet-plugin", stage.node)


@fault()
def kill_all_plugins(stage: Stage) -> None:
    kill_all(stage.cluster, "kubelet-plugin")


@fault(sudden=True)
def kill_controllers(stage: Stage) -> None:
    kill_all(stage.cluster, "controller")


@fault()
def kill_leader(stage: Stage) -> None:
    holder = stage.cluster.get(LEASE, "compute-domain-controller", DRIVER_NAMESPACE)["spec"].get("holderIdentity", "")
    leader = [pod for pod in pods_of(stage.cluster, "controller") if pod["metadata"]["name"] in holder]
    for pod in leader or pods_of(stage.cluster, "controller"):
        kill(processes_of_pod(pod["metadata"]["uid"], PROGRAMS["controller"]), "the leading controller")


@fault("node", sudden=True)
def kill_imex(stage: Stage) -> None:
    kill(imex_processes(stage.cluster)[stage.node], "nvidia-imex")


@fault("node", sudden=True)
def kill_daemon(stage: Stage) -> None:
    """The supervisor is process 1 of its container: nvidia-imex ends with it."""
    kill_all(stage.cluster, "daemon", stage.node)


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


def end_within(pids: list[int], seconds: float) -> None:
    """Gives processes that Kubernetes may or may not end this time to do so."""
    deadline = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.1)


def delete_pods(cluster: Cluster, component: str, node: str, grace: int | None) -> None:
    for pod in pods_of(cluster, component, node):
        cluster.delete(POD, pod["metadata"]["name"], DRIVER_NAMESPACE, grace)


@fault("node")
def delete_daemon_pod(stage: Stage) -> None:
    """Struck when nvidia-imex has ended: the grace period, or the forced deletion's delay, is over."""
    pids = imex_processes(stage.cluster)[stage.node]
    delete_pods(stage.cluster, "daemon", stage.node, stage.dice.choice((None, 0)))
    wait_until(lambda: not alive(pids), f"the old nvidia-imex of {stage.node} ended", 60)


@fault()
def delete_plugin_pod(stage: Stage) -> None:
    delete_pods(stage.cluster, "kubelet-plugin", stage.node, stage.dice.choice((None, 0)))


@fault()
def delete_controller_pods(stage: Stage) -> None:
    delete_pods(stage.cluster, "controller", "", stage.dice.choice((None, 0)))


@fault(sudden=True)
def empty_cdi(stage: Stage) -> None:
    """All CDI specs of the driver are gone, the daemon's too."""
    on_node(stage.node, "find", CDI_DIR, "-name", "*compute-domain*", "-delete")


def damage_checkpoint(stage: Stage, damage: str) -> None:
    kill_all(stage.cluster, "kubelet-plugin", stage.node)
    on_node(stage.node, "sh", "-c", damage)


@fault(sudden=True)
def truncate_checkpoint(stage: Stage) -> None:
    damage_checkpoint(stage, f"head -c 300 {CHECKPOINT} >{CHECKPOINT}.short && mv {CHECKPOINT}.short {CHECKPOINT}")


@fault()
def overwrite_checkpoint(stage: Stage) -> None:
    """With bytes that are no JSON."""
    damage_checkpoint(stage, f"head -c 5000 /dev/urandom >{CHECKPOINT}.random && mv {CHECKPOINT}.random {CHECKPOINT}")


@fault(sudden=True)
def remove_checkpoint(stage: Stage) -> None:
    damage_checkpoint(stage, f"rm -f {CHECKPOINT}")


@fault("node", drawn=False)
def delete_plugin_directory(stage: Stage) -> None:
    """What is held stays reported. The daemon has the deleted directories mounted, so an operator replaces its pod."""
    held = {stage.cluster.get(COMPUTE_DOMAIN, domain.name, domain.namespace)["metadata"]["uid"] for domain in stage.load.domains}

    def imex_node() -> Object:
        return stage.cluster.get(IMEX_NODE, stage.node)["status"]

    def missing() -> set[str]:
        return held - {entry["computeDomainUID"] for entry in imex_node()["channels"]}

    wait_until(lambda: not missing(), f"every domain of the load in the report of {stage.node}", 60)
    # It fails where the plugin puts back what it takes away.
    on_node(stage.node, "sh", "-c", f"rm -rf {PLUGIN_DIR}/* || true")
    delete_daemon_pod(stage)
    wait_until(lambda: imex_node()["daemon"]["state"] == "Ready", f"daemon of {stage.node} ready", 90)
    assert not missing(), "channels that pods hold are not reported any more"
