"""A daemon that says READY and that the others do not see: here, because its node has another driver version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from demo import workload
from demo.workload import Member
from lab.client import COMPUTE_DOMAIN, EVENT, IMEX_DOMAIN, IMEX_NODE, POD, Cluster, compute_domain_manifest, wait_until

from .conftest import driver_ready
from .driver_pods import imex_processes, kill
from .node_files import lab


def unseen(cluster: Cluster) -> set[str]:
    return {m["node"] for d in cluster.list(IMEX_DOMAIN) for m in d["spec"].get("members", []) if m.get("unseen")}


def run_driver(cluster: Cluster, node: str, version: str) -> None:
    """The node's driver is of that version, and nvidia-imex with it."""
    lab("topology", "set", node, f"driverVersion={version}")
    kill(imex_processes(cluster)[node], "nvidia-imex")


class Upgraded(NamedTuple):
    node: str
    before: str  # its driver's version, which the others still have


@pytest.fixture
def upgraded(cluster: Cluster, nodes: list[str]) -> Iterator[Upgraded]:
    """A node with a newer driver than the others."""
    assert len(nodes) >= 3, "this test needs a lab of three nodes in one clique or more: of two neither is to blame"
    node = nodes[-1]
    before = cluster.get(IMEX_NODE, node)["status"]["driverVersion"]
    run_driver(cluster, node, "590.10.01")
    yield Upgraded(node, before)
    if cluster.get(IMEX_NODE, node)["status"]["driverVersion"] != before:
        run_driver(cluster, node, before)
    wait_until(lambda: not unseen(cluster) and driver_ready(cluster, nodes), "every daemon seen", 60)


def test_no_pod_starts_where_the_others_do_not_see_the_daemon_until_they_do(
        cluster: Cluster, nodes: list[str], namespace: str, upgraded: Upgraded) -> None:
    wait_until(lambda: unseen(cluster) == {upgraded.node}, "the member marked as unseen", 60)
    assert cluster.get(IMEX_NODE, upgraded.node)["status"]["daemon"]["state"] == "Ready", "its own word"

    red = [Member("red", f"red-{n}", node) for n, node in enumerate([nodes[0], upgraded.node])]
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    for member in red:
        cluster.create(POD, workload.exporter(member, "red-channel"), namespace)
    workload.wait_running(cluster, [red[0].pod], namespace)

    def told() -> bool:
        events = cluster.list(EVENT, namespace, fieldSelector=f"involvedObject.name={red[1].pod}")
        return any("the other nodes' daemons do not see it" in e["message"] for e in events)

    wait_until(told, "the pod's event says why", 30)
    assert cluster.get(POD, red[1].pod, namespace)["status"]["phase"] == "Pending"

    run_driver(cluster, upgraded.node, upgraded.before)
    workload.wait_running(cluster, [m.pod for m in red], namespace)
    assert not unseen(cluster)
    result = workload.import_memory(red[0].pod, workload.handle_of(cluster, red[1].pod, namespace), namespace)
    assert result.returncode == 0, result
