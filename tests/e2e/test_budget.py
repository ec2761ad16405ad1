"""What one life of a ComputeDomain costs the API server."""

from __future__ import annotations

from demo import workload
from demo.workload import Member
from lab.client import CLAIM, COMPUTE_DOMAIN, POD, Cluster, compute_domain_manifest, wait_until

from .audit import READS, Recording
from .conftest import leases

MOST_REQUESTS = 24
MOST_WRITES = 14


def test_life_of_a_domain_with_two_pods_stays_within_its_budget_of_requests(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    recording = Recording()
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    members = [Member("red", f"red-{n}", node) for n, node in enumerate(nodes[:2])]
    for member in members:
        cluster.create(POD, workload.exporter(member, "red-channel"), namespace)
    workload.wait_running(cluster, [m.pod for m in members], namespace)

    def ready() -> bool:
        return cluster.get(COMPUTE_DOMAIN, "red", namespace)["status"].get("nodeSummary") == {"total": 2, "ready": 2}

    wait_until(ready, "both nodes ready in the status", 30)
    for member in members:
        cluster.delete(POD, member.pod, namespace)
    wait_until(lambda: not cluster.list(CLAIM, namespace), "the claims gone", 30)
    cluster.delete(COMPUTE_DOMAIN, "red", namespace)
    wait_until(lambda: not cluster.find(COMPUTE_DOMAIN, "red", namespace) and not leases(cluster, namespace), "domain and lease gone", 30)

    requests = recording.requests()
    writes = [r for r in requests if r[1] not in READS]
    assert not [r for r in requests if r[3] >= 400], recording.table()
    assert len(requests) <= MOST_REQUESTS, recording.table()
    assert len(writes) <= MOST_WRITES, recording.table()


def test_further_pod_of_a_domain_on_a_node_costs_no_write(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    cluster.create(POD, workload.exporter(Member("red", "red-1", nodes[0]), "red-channel"), namespace)
    workload.wait_running(cluster, ["red-1"], namespace)

    def settled() -> bool:
        return cluster.get(COMPUTE_DOMAIN, "red", namespace)["status"].get("nodeSummary") == {"total": 1, "ready": 1}

    wait_until(settled, "the status settled", 30)
    recording = Recording()
    cluster.create(POD, workload.exporter(Member("red", "red-2", nodes[0]), "red-channel"), namespace)
    workload.wait_running(cluster, ["red-2"], namespace)
    assert not [r for r in recording.requests() if r[1] not in READS], recording.table()
