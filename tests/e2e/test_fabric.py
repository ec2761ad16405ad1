"""Nodes whose fabric cannot serve: they offer nothing, say why, and heal by themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo import workload
from demo.workload import Member
from lab.client import COMPUTE_DOMAIN, IMEX_NODE, POD, SLICE, Cluster, compute_domain_manifest, wait_until

from .node_files import lab

CASES = {
    "none": (["gpus.state=not_supported"], "None", "fabric"),
    "forming": (["gpus.state=in_progress"], "Forming", "registering"),
    "mixed": (["gpus.0.cliqueId=77"], "Mixed", "clique"),
}
HEALTHY = ["gpus.state=completed"]


def fabric(cluster: Cluster, node: str) -> dict:
    return cluster.get(IMEX_NODE, node)["status"]["fabric"]


def offers_channel(cluster: Cluster, node: str) -> bool:
    devices = [d for s in cluster.list(SLICE, fieldSelector=f"spec.nodeName={node}") if s["spec"]["driver"] == "compute-domain.nvidia.com"
               for d in s["spec"].get("devices") or []]
    return any(d["attributes"]["type"]["string"] == "channel" and d["attributes"]["fabric"]["bool"] for d in devices)


@pytest.fixture
def last_node(cluster: Cluster, nodes: list[str]) -> Iterator[str]:
    """A node whose hardware a test may change; healthy again after it."""
    node = nodes[-1]
    clique = fabric(cluster, node)["cliqueIDs"][0].rpartition(".")[2]
    yield node
    lab("topology", "set", node, *HEALTHY, f"gpus.cliqueId={clique}")
    wait_until(lambda: offers_channel(cluster, node), "the node offers channels again", 60)


@pytest.mark.parametrize("case", CASES)
def test_node_offers_nothing_says_why_and_heals(cluster: Cluster, last_node: str, namespace: str, case: str) -> None:
    assignments, state, word = CASES[case]
    clique = fabric(cluster, last_node)["cliqueIDs"][0].rpartition(".")[2]
    assert offers_channel(cluster, last_node)
    lab("topology", "set", last_node, *assignments)
    wait_until(lambda: fabric(cluster, last_node)["state"] == state, f"fabric state {state}", 30)
    assert word in fabric(cluster, last_node)["message"].lower()
    wait_until(lambda: not offers_channel(cluster, last_node), "no channel offered", 30)
    lab("topology", "set", last_node, *HEALTHY, f"gpus.cliqueId={clique}")
    wait_until(lambda: fabric(cluster, last_node)["state"] == "Ready" and offers_channel(cluster, last_node), "the node healed", 60)
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    cluster.create(POD, workload.exporter(Member("red", "red-1", last_node), "red-channel"), namespace)
    workload.wait_running(cluster, ["red-1"], namespace)
