"""Faults of the cluster: its programs, its nodes and their fabric."""

from __future__ import annotations

import time

from lab.client import CLAIM, IMEX_NODE, NODE, POD, wait_until
from tests.e2e.driver_pods import imex_processes, kill
from tests.e2e.node_files import cdi_files, checkpoint_claims, lab, processes_of_pod

from .driver_faults import end_within
from .load import LONG_OUTAGE
from .stage import Stage, fault


@fault()
def kill_api_server(_: Stage) -> None:
    lab("component", "kill", "kube-apiserver")
    lab("component", "start", "kube-apiserver")


@fault()
def api_outage(stage: Stage) -> None:
    """Some seconds without API server."""
    lab("component", "stop", "kube-apiserver")
    time.sleep(stage.dice.uniform(2, 8))
    lab("component", "start", "kube-apiserver")


@fault("domain", drawn=False)
def long_api_outage(stage: Stage) -> None:
    """Ten minutes without API server. A member ends meanwhile, and its node takes back what it had been given."""
    domain, node = stage.domain, stage.node
    pod = stage.cluster.get(POD, domain.pod_name(node), domain.namespace)
    claim = stage.cluster.get(CLAIM, pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"], domain.namespace)["metadata"]["uid"]
    assert claim in checkpoint_claims(node)
    began = time.monotonic()
    lab("component", "stop", "kube-apiserver")
    kill(processes_of_pod(pod["metadata"]["uid"], "busybox"), domain.pod_name(node))
    wait_until(lambda: claim not in checkpoint_claims(node) and not any(claim in name for name in cdi_files(node)),
               f"claim {claim} taken back on {node}", 120)
    time.sleep(max(0.0, began + LONG_OUTAGE - time.monotonic()))
    lab("component", "start", "kube-apiserver")


@fault(sudden=True)
def restart_kubelet(stage: Stage) -> None:
    lab("component", "restart", f"{stage.node}/kubelet")


@fault(sudden=True)
def kill_kubelet(stage: Stage) -> None:
    lab("component", "kill", f"{stage.node}/kubelet")
    time.sleep(stage.dice.uniform(0, 4))
    lab("component", "start", f"{stage.node}/kubelet")


@fault(sudden=True)
def restart_containerd(stage: Stage) -> None:
    lab("component", "restart", f"{stage.node}/containerd")


@fault("node")
def reboot_node(stage: Stage) -> None:
    lab("node", "reboot", stage.node)


@fault("node")
def stop_node(stage: Stage) -> None:
    """A power cut that is over before the cluster takes the node for lost."""
    lab("node", "stop", stage.node)
    time.sleep(stage.dice.uniform(1, 10))
    lab("node", "start", stage.node)


@fault("node")
def delete_node(stage: Stage) -> None:
    """The Node object, and with it all that it owns; the kubelet makes a new one when it starts, without our labels."""
    pids = imex_processes(stage.cluster)[stage.node]
    old = stage.cluster.get(NODE, stage.node)["metadata"]["uid"]
    stage.cluster.delete(NODE, stage.node)
    lab("component", "restart", f"{stage.node}/kubelet")

    def back() -> bool:
        node = stage.cluster.find(NODE, stage.node)
        return node is not None and node["metadata"]["uid"] != old

    wait_until(back, f"{stage.node} registered again", 60)
    end_within(pids, 8)


def reports(stage: Stage, state: str, clique: str = "") -> bool:
    fabric = stage.cluster.get(IMEX_NODE, stage.node)["status"]["fabric"]
    return fabric["state"] == state and any(c.endswith(f".{clique}") for c in fabric["cliqueIDs"] or [""])


@fault("node")
def sick_fabric(stage: Stage) -> None:
    """Until the node has said so."""
    state, reported = stage.dice.choice((("in_progress", "Forming"), ("not_supported", "None")))
    lab("topology", "set", stage.node, f"gpus.state={state}")
    wait_until(lambda: stage.cluster.get(IMEX_NODE, stage.node)["status"]["fabric"]["state"] == reported, f"fabric {reported}", 30)
    lab("topology", "set", stage.node, "gpus.state=completed")


@fault("node")
def change_clique(stage: Stage) -> None:
    """The partition is cut anew under running pods, and back."""
    before = stage.cluster.get(IMEX_NODE, stage.node)["status"]["fabric"]["cliqueIDs"][0].rpartition(".")[2]
    lab("topology", "set", stage.node, "gpus.cliqueId=77")
    wait_until(lambda: reports(stage, "Ready", "77"), f"{stage.node} in clique 77", 30)
    lab("topology", "set", stage.node, f"gpus.cliqueId={before}")
    wait_until(lambda: reports(stage, "Ready", before), f"{stage.node} in clique {before} again", 30)
