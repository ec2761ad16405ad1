"""Runs inside `lab exec` against a lab with the nodes of topology.yaml; `make test-combinations` makes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import topology
from lab.client import IMEX_NODE, NODE, SLICE, Cluster, wait_until
from tests.e2e.conftest import cluster, namespace

from .rules import partition_of

__all__ = ["cluster", "namespace"]


def at_rest(cluster: Cluster) -> bool:
    """Every node offers what it can: with fabric it is READY in its partition's IMEX domain and sees the others, else it has no domain."""
    nodes = {n["metadata"]["name"]: n for n in cluster.list(IMEX_NODE)}
    cliques = {name: "".join(n["status"].get("fabric", {}).get("cliqueIDs", [])) for name, n in nodes.items()}

    def settled(name: str) -> bool:
        domain, daemon = nodes[name]["spec"].get("domain", {}), nodes[name]["status"].get("daemon", {})
        if not partition_of(name):
            return not domain and not cliques[name]
        others = sum(clique == cliques[name] for clique in cliques.values()) - 1
        ready = daemon.get("state") == "Ready" and daemon.get("domainUID") == domain.get("uid")
        return ready and domain.get("name") == cliques[name] and len(daemon.get("connected", [])) >= others

    offering = {s["spec"].get("nodeName") for s in cluster.list(SLICE) if s["spec"]["driver"] == "compute-domain.nvidia.com"}
    return all(name in nodes and settled(name) and name in offering for name in (n["metadata"]["name"] for n in cluster.list(NODE)))


@pytest.fixture(autouse=True)
def lab_at_rest(cluster: Cluster) -> None:
    wanted = {node.name for node in topology.load(str(Path(__file__).parent / "topology.yaml"))}
    nodes = {node["metadata"]["name"] for node in cluster.list(NODE)}
    assert nodes == wanted, f"the lab has other nodes, {sorted(nodes)}: `make test-combinations` starts one that fits"
    wait_until(lambda: at_rest(cluster), "the driver ready on every node", 120)
