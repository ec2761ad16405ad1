"""partitionPolicy Single: all pods in one NVLink partition, and a refusal that names both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo import workload
from lab.client import COMPUTE_DOMAIN, EVENT, IMEX_NODE, POD, Cluster, compute_domain_manifest, pod_manifest, wait_until

from .conftest import leases
from .node_files import lab


def clique_of(cluster: Cluster, node: str) -> str:
    return "".join(cluster.get(IMEX_NODE, node)["status"]["fabric"]["cliqueIDs"])


def member_of(cluster: Cluster, node: str, clique: str) -> bool:
    found = cluster.get(IMEX_NODE, node)
    return (found["spec"].get("domain") or {}).get("name") == clique and found["status"]["daemon"]["state"] == "Ready"


@pytest.fixture
def second_partition(cluster: Cluster, nodes: list[str]) -> Iterator[str]:
    """The last node is in a partition of its own, whose name this is."""
    node = nodes[-1]
    cluster_uuid, _, clique = clique_of(cluster, node).rpartition(".")
    other = f"{cluster_uuid}.{int(clique) + 1}"
    lab("topology", "set", node, f"gpus.cliqueId={int(clique) + 1}")
    wait_until(lambda: member_of(cluster, node, other), f"{node} in partition {other}", 90)
    yield other
    lab("topology", "set", node, f"gpus.cliqueId={clique}")
    wait_until(lambda: member_of(cluster, node, f"{cluster_uuid}.{clique}"), f"{node} back in its partition", 90)


def messages(cluster: Cluster, pod: str, namespace: str) -> str:
    return "\n".join(e["message"] for e in cluster.list(EVENT, namespace, fieldSelector=f"involvedObject.name={pod}"))


def test_single_refuses_a_pod_in_another_partition_and_names_both(
        cluster: Cluster, nodes: list[str], second_partition: str, namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red", partitionPolicy="Single"), namespace)
    cluster.create(POD, pod_manifest("first", nodes[0], "red-channel"), namespace)
    workload.wait_running(cluster, ["first"], namespace)
    here = clique_of(cluster, nodes[0])
    assert cluster.get(COMPUTE_DOMAIN, "red", namespace)["status"]["partition"] == here

    cluster.create(POD, pod_manifest("astray", nodes[-1], "red-channel"), namespace)
    wait_until(lambda: "OtherPartition" in messages(cluster, "astray", namespace), "the refusal in the pod's events", 30)
    text = messages(cluster, "astray", namespace)
    assert here in text and second_partition in text, text
    assert [lease["imexDomain"] for lease in leases(cluster, namespace)] == [here]

    # When nobody is left in the first one, the other may be it.
    cluster.delete(POD, "first", namespace, 0)
    workload.wait_running(cluster, ["astray"], namespace, 120)
    assert cluster.get(COMPUTE_DOMAIN, "red", namespace)["status"]["partition"] == second_partition


def test_any_has_a_lease_and_a_status_for_each_partition(
        cluster: Cluster, nodes: list[str], second_partition: str, namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    for name, node in (("one", nodes[0]), ("two", nodes[-1])):
        cluster.create(POD, pod_manifest(name, node, "red-channel"), namespace)
    workload.wait_running(cluster, ["one", "two"], namespace)
    here = clique_of(cluster, nodes[0])

    def partitions() -> dict[str, tuple[int, int]]:
        status = cluster.get(COMPUTE_DOMAIN, "red", namespace)["status"]
        return {p["cliqueID"]: (p["nodes"], p["readyNodes"]) for p in status.get("partitions", [])}

    wait_until(lambda: partitions() == {here: (1, 1), second_partition: (1, 1)}, "both partitions in the status", 30)
    assert {lease["imexDomain"] for lease in leases(cluster, namespace)} == {here, second_partition}
