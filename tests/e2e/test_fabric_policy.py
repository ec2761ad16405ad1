"""fabricPolicy: who may run on a node without multi-node NVLink, and how the pod learns that it runs there without a channel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo import workload
from lab.client import (
    COMPUTE_DOMAIN, EVENT, IMEX_NODE, POD, SLICE, Cluster, Object, compute_domain_manifest, condition, pod_manifest, run_in_pod, wait_until,
)

from .node_files import lab


def fabric_state(cluster: Cluster, node: str) -> str:
    return cluster.get(IMEX_NODE, node)["status"]["fabric"]["state"]


def offered(cluster: Cluster, node: str) -> Object:
    """Attributes of the channel device the node offers; empty: none."""
    devices = [d for s in cluster.list(SLICE, fieldSelector=f"spec.nodeName={node}") if s["spec"]["driver"] == "compute-domain.nvidia.com"
               for d in s["spec"].get("devices") or [] if d["attributes"]["type"]["string"] == "channel"]
    return devices[0]["attributes"] if devices else {}


@pytest.fixture
def bare_node(cluster: Cluster, nodes: list[str]) -> Iterator[str]:
    """A node without fabric; it has one again after the test."""
    node = nodes[-1]
    clique = cluster.get(IMEX_NODE, node)["status"]["fabric"]["cliqueIDs"][0].rpartition(".")[2]
    lab("topology", "set", node, "gpus.state=not_supported")
    wait_until(lambda: offered(cluster, node).get("fabric") == {"bool": False}, "a device for pods that do without fabric", 60)
    wait_until(lambda: not cluster.get(IMEX_NODE, node)["spec"].get("domain"), "the node out of its IMEX domain", 60)
    yield node
    lab("topology", "set", node, "gpus.state=completed", f"gpus.cliqueId={clique}")
    wait_until(lambda: offered(cluster, node).get("fabric") == {"bool": True}, "the node offers channels again", 60)


def environment(pod: str, namespace: str) -> dict[str, str]:
    lines = run_in_pod(pod, "env", namespace=namespace).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines if line.startswith("NVIDIA_COMPUTE_DOMAIN"))


def events_of(cluster: Cluster, pod: str, namespace: str) -> list[Object]:
    return cluster.list(EVENT, namespace, fieldSelector=f"involvedObject.name={pod}")


def test_optional_runs_without_channel_and_says_so_everywhere(
        cluster: Cluster, nodes: list[str], bare_node: str, namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red", fabricPolicy="Optional"), namespace)
    cluster.create(POD, pod_manifest("with", nodes[0], "red-channel"), namespace)
    cluster.create(POD, pod_manifest("without", bare_node, "red-channel"), namespace)
    workload.wait_running(cluster, ["with", "without"], namespace)

    assert len(workload.channels_of("with", namespace)) == 1
    assert workload.channels_of("without", namespace) == []
    assert environment("with", namespace)["NVIDIA_COMPUTE_DOMAIN_FABRIC"] == "true"
    seen = environment("without", namespace)
    assert seen["NVIDIA_COMPUTE_DOMAIN_FABRIC"] == "false" and "NVIDIA_COMPUTE_DOMAIN_CHANNEL" not in seen, seen

    told = wait_until(lambda: [e for e in events_of(cluster, "without", namespace) if e["reason"] == "NoChannel"], "an event at the pod", 30)
    assert bare_node in told[0]["message"] and "fabricPolicy" in told[0]["message"]
    assert not [e for e in events_of(cluster, "with", namespace) if e["reason"] == "NoChannel"]

    def summary() -> Object:
        return cluster.get(COMPUTE_DOMAIN, "red", namespace)["status"].get("nodeSummary", {})

    wait_until(lambda: summary() == {"total": 2, "ready": 2, "withoutFabric": 1}, "the status to count the node without fabric", 30)
    ready = condition(cluster.get(COMPUTE_DOMAIN, "red", namespace), "Ready")
    assert ready["status"] == "True" and bare_node in ready["message"], ready


def test_required_is_not_placed_on_a_node_without_fabric(cluster: Cluster, bare_node: str, namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    cluster.create(POD, pod_manifest("pod", bare_node, "red-channel"), namespace)

    def unschedulable() -> bool:
        return condition(cluster.get(POD, "pod", namespace), "PodScheduled").get("reason") == "Unschedulable"

    wait_until(unschedulable, "the scheduler to say that no node fits", 60)


def test_exemption_goes_with_the_domain(cluster: Cluster, bare_node: str, namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red", fabricPolicy="Optional"), namespace)
    cluster.create(POD, pod_manifest("pod", bare_node, "red-channel"), namespace)
    workload.wait_running(cluster, ["pod"], namespace)
    assert cluster.get(IMEX_NODE, bare_node)["spec"]["exemptions"]
    cluster.delete(POD, "pod", namespace, 0)
    cluster.delete(COMPUTE_DOMAIN, "red", namespace)
    wait_until(lambda: not cluster.get(IMEX_NODE, bare_node)["spec"].get("exemptions"), "the exemption gone", 30)


@pytest.mark.parametrize("assignments,state", [(["gpus.state=in_progress"], "Forming"), (["gpus.0.healthSummary=2"], "Degraded")])
def test_half_formed_or_sick_fabric_is_not_taken_for_none(
        cluster: Cluster, nodes: list[str], namespace: str, assignments: list[str], state: str) -> None:
    node = nodes[-1]
    lab("topology", "set", node, *assignments)
    try:
        wait_until(lambda: fabric_state(cluster, node) == state, f"fabric state {state}", 60)
        wait_until(lambda: offered(cluster, node) == {}, "no channel offered", 30)
        cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red", fabricPolicy="Optional"), namespace)
        cluster.create(POD, pod_manifest("pod", node, "red-channel"), namespace)

        def unschedulable() -> bool:
            return condition(cluster.get(POD, "pod", namespace), "PodScheduled").get("reason") == "Unschedulable"

        wait_until(unschedulable, "the scheduler to say that no node fits", 60)
    finally:
        lab("topology", "set", node, "gpus.state=completed", "gpus.healthSummary=1")
    workload.wait_running(cluster, ["pod"], namespace, 120)
    assert len(workload.channels_of("pod", namespace)) == 1
