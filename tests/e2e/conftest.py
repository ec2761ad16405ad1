"""Fixtures of the end-to-end tests: they run inside `lab exec` against a lab with the driver installed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from lab.client import (
    CLAIM, COMPUTE_DOMAIN, DAEMON_SET, DEPLOYMENT, IMEX_DOMAIN, IMEX_NODE, NAMESPACE, NODE, POD, SERVICE_ACCOUNT, Cluster, Object,
    wait_until,
)

DRIVER_NAMESPACE = "computedomain-system"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster("e2e")


@pytest.fixture(scope="session")
def nodes(cluster: Cluster) -> list[str]:
    """Names of all nodes, sorted; at least two."""
    names = sorted(node["metadata"]["name"] for node in cluster.list(NODE))
    assert len(names) >= 2, f"the lab has too few nodes: {names}"
    return names


def driver_ready(cluster: Cluster, nodes: list[str]) -> bool:
    """Every node has a slot and a READY daemon, and the driver's pods are all there."""
    by_name = {n["metadata"]["name"]: n for n in cluster.list(IMEX_NODE)}
    return (
        all(by_name.get(n, {}).get("status", {}).get("daemon", {}).get("state") == "Ready" for n in nodes)
        and all(d["status"].get("readyReplicas", 0) == d["spec"]["replicas"] for d in cluster.list(DEPLOYMENT, DRIVER_NAMESPACE))
        and all(d["status"].get("numberReady", 0) == len(nodes) for d in cluster.list(DAEMON_SET, DRIVER_NAMESPACE)))


@pytest.fixture(autouse=True)
def healthy_driver(cluster: Cluster, nodes: list[str]) -> None:
    """Each test starts from a driver at rest, so that a failure belongs to the test that shows it."""
    wait_until(lambda: driver_ready(cluster, nodes), "the driver ready on every node", 120)


def leases(cluster: Cluster, namespace: str) -> list[Object]:
    """All channel leases of ComputeDomains of a namespace, with the IMEX domain they are in."""
    return [{**lease, "imexDomain": d["metadata"]["name"]} for d in cluster.list(IMEX_DOMAIN) for lease in d["spec"].get("channels", [])
            if lease["computeDomain"]["namespace"] == namespace]


def reported_channels(cluster: Cluster, compute_domain_uid: str) -> dict[str, list[int]]:
    """node → channels of that ComputeDomain which the node reports."""
    return {n["metadata"]["name"]: found for n in cluster.list(IMEX_NODE)
            if (found := [c["channel"] for c in n.get("status", {}).get("channels", []) if c["computeDomainUID"] == compute_domain_uid])}


def remove_everything(cluster: Cluster, namespace: str) -> None:
    for kind, grace in ((POD, 0), (COMPUTE_DOMAIN, None), (CLAIM, None)):
        for obj in cluster.list(kind, namespace):
            cluster.delete(kind, obj["metadata"]["name"], namespace, grace)
    wait_until(lambda: not cluster.list(POD, namespace) and not cluster.list(COMPUTE_DOMAIN, namespace) and not leases(cluster, namespace),
               f"namespace {namespace} empty and its leases gone", 90)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own; what the test leaves in it is removed, and must be removable."""
    name = f"e2e-{os.getpid()}-{next(_numbers)}"
    cluster.create(NAMESPACE, {"metadata": {"name": name}})

    def has_account() -> bool:
        return cluster.find(SERVICE_ACCOUNT, "default", name) is not None

    wait_until(has_account, f"service account of namespace {name}", 30)
    yield name
    remove_everything(cluster, name)
    cluster.delete(NAMESPACE, name)
