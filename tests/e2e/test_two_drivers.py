"""One claim with devices of two drivers, the other of which fails: our part of it neither waits for the other nor stays behind."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator

import pytest

from bench import noop
from lab.client import CLAIM, COMPUTE_DOMAIN, DEVICE_CLASS, POD, SLICE, Cluster, Object, wait_until
from lab.identity import CHECKOUT

from .conftest import driver_ready, leases, reported_channels
from .driver_pods import kill_all
from .node_files import checkpoint_claims, on_node
from .test_bad_input import channel_config, claim, events_of, pod_with_claim
from .test_deletion import make_domain, run_one

PROGRAM = CHECKOUT / "build" / "release" / "bench" / "noop-driver"


@pytest.fixture
def refusing(cluster: Cluster, nodes: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The do-nothing driver of the bench on the first node, as a process there, that refuses every Prepare."""
    node = nodes[0]
    noop.remove(cluster)
    cluster.create(DEVICE_CLASS, noop.device_class())
    on_node(node, "mkdir", "-p", f"{noop.KUBELET}/plugins/{noop.DRIVER}")
    command = [CHECKOUT / "lab" / "lab", "node-exec", node, PROGRAM, node, "refuse"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as driver:
        try:
            assert driver.stderr is not None
            assert any(noop.REGISTERED in line for line in driver.stderr), f"the other driver ended with {driver.poll()}"
            cluster.create(SLICE, noop.resource_slice(node))
            yield driver
        finally:
            driver.terminate()
    noop.remove(cluster)


def claim_of_both(domain: str) -> Object:
    body = claim("both", channel_config(domain))
    body["spec"]["devices"]["requests"].append({"name": noop.REQUEST, "exactly": {"deviceClassName": noop.DRIVER}})
    return body


@pytest.mark.parametrize("other", ["refuses", "is-gone"])
def test_channel_beside_a_device_that_cannot_be_had_hinders_nobody_and_is_given_up(
        cluster: Cluster, nodes: list[str], namespace: str, refusing: subprocess.Popen[str], other: str) -> None:
    domain = make_domain(cluster, namespace, "red")
    uid = cluster.create(CLAIM, claim_of_both(domain), namespace)["metadata"]["uid"]
    cluster.create(POD, pod_with_claim("both", nodes[0]), namespace)
    wait_until(lambda: "told to refuse" in events_of(cluster, "both", namespace), "the other driver's refusal in the pod's events", 30)
    attempts = itertools.count()

    def prepared() -> bool:
        """The kubelet asks the drivers of a claim in any order and stops at the first that refuses; a changed pod is tried again."""
        cluster.patch(POD, "both", {"metadata": {"annotations": {"e2e/attempt": str(next(attempts))}}}, namespace)
        return uid in checkpoint_claims(nodes[0])

    wait_until(prepared, "our part prepared", 60, 0.5)
    (held,) = reported_channels(cluster, domain)[nodes[0]]
    make_domain(cluster, namespace, "blue")
    assert run_one(cluster, namespace, "blue", nodes[0]) != held

    if other == "is-gone":
        refusing.terminate()
        refusing.wait(20)
        # Without that driver the kubelet may never get as far as to us. We notice at the next start, or within an hour.
        cluster.delete(POD, "both", namespace, grace=0)
        cluster.delete(CLAIM, "both", namespace)
        wait_until(lambda: not cluster.find(CLAIM, "both", namespace), "the claim gone", 30)
        kill_all(cluster, "kubelet-plugin", nodes[0])
    else:
        cluster.delete(POD, "both", namespace)
    wait_until(lambda: uid not in checkpoint_claims(nodes[0]), "our part given up", 60)
    cluster.delete(COMPUTE_DOMAIN, "red", namespace)
    wait_until(lambda: [lease["computeDomain"]["name"] for lease in leases(cluster, namespace)] == ["blue"], "its number free", 30)
    wait_until(lambda: driver_ready(cluster, nodes), "the driver ready", 60)
