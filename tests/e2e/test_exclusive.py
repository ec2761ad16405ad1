"""isolationMode Domain: an IMEX domain and a node for one ComputeDomain, and nobody's running work touched on the way there and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from demo import workload
from demo.workload import Member
from lab.client import (
    CLAIM, CLAIM_TEMPLATE, COMPUTE_DOMAIN, IMEX_DOMAIN, IMEX_NODE, POD, Cluster, Object, compute_domain_manifest, condition,
    run_in_pod, wait_until,
)

from .node_files import PLUGIN_DIR, on_node
from .test_bad_input import channel_config, claim, events_of, pod_with_claim

CHANNELS = 2048  # of the emulated kernel driver


@pytest.fixture(autouse=True)
def back_in_the_shared_domain(cluster: Cluster, nodes: list[str]) -> Iterator[None]:
    """Nodes that are still on their way would count in the next test."""
    yield

    def at_rest() -> bool:
        exclusive = [d for d in cluster.list(IMEX_DOMAIN) if d["spec"]["mode"] == "Exclusive"]
        return not exclusive and all(domain_of(cluster, node) for node in nodes)

    wait_until(at_rest, "all nodes back in the shared domain", 60)


def create(cluster: Cluster, namespace: str, name: str, mode: str = "Single", **spec: Any) -> Object:
    manifest = compute_domain_manifest(name, **spec)
    manifest["spec"]["channel"]["allocationMode"] = mode
    return cluster.create(COMPUTE_DOMAIN, manifest, namespace)


def start(cluster: Cluster, namespace: str, domain: str, pod: str, node: str = "") -> None:
    """Once the ComputeDomain's template is there: a pod that exports its memory."""
    wait_until(lambda: cluster.find(CLAIM_TEMPLATE, f"{domain}-channel", namespace), f"template of {domain}", 20)
    cluster.create(POD, workload.exporter(Member(domain, pod, node), f"{domain}-channel"), namespace)


def domain_of(cluster: Cluster, node: str) -> str:
    """The IMEXDomain the node's daemon serves; empty while it is READY in none."""
    imex_node = cluster.get(IMEX_NODE, node, "")
    assigned, daemon = imex_node["spec"].get("domain", {}), imex_node["status"]["daemon"]
    return assigned.get("name", "") if daemon["state"] == "Ready" and daemon["domainUID"] == assigned.get("uid") else ""


def instance_of(cluster: Cluster, node: str) -> str:
    return cluster.get(IMEX_NODE, node, "")["status"]["daemon"]["instance"]


def is_unschedulable(cluster: Cluster, pod: str, namespace: str) -> bool:
    scheduled = next((c for c in cluster.get(POD, pod, namespace)["status"].get("conditions", []) if c["type"] == "PodScheduled"), {})
    return scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"


def imports(namespace: str, importer: str, handle: str) -> bool:
    return workload.import_memory(importer, handle, namespace).returncode == 0


def test_node_goes_into_the_exclusive_domain_and_back_and_nobody_notices(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    first, others = nodes[0], nodes[1:]
    shared = domain_of(cluster, first)
    create(cluster, namespace, "red")
    for n, node in enumerate(others):
        start(cluster, namespace, "red", f"red-{n}", node)
    workload.wait_running(cluster, [f"red-{n}" for n in range(len(others))], namespace)
    handle = workload.handle_of(cluster, "red-0", namespace)
    before = {node: instance_of(cluster, node) for node in nodes}

    uid = create(cluster, namespace, "alone", isolationMode="Domain")["metadata"]["uid"]
    start(cluster, namespace, "alone", "alone-1", first)
    workload.wait_running(cluster, ["alone-1"], namespace)
    assert domain_of(cluster, first) == f"{uid}.{shared}"
    (exclusive,) = [d for d in cluster.list(IMEX_DOMAIN) if d["spec"]["mode"] == "Exclusive"]
    assert exclusive["spec"]["computeDomain"] == {"namespace": namespace, "name": "alone", "uid": uid}
    assert [m["node"] for m in exclusive["spec"]["members"]] == [first]
    assert len(workload.channels_of("alone-1", namespace)) == 1
    inside = instance_of(cluster, first)
    assert inside != before[first], "one restart of nvidia-imex, into the other domain"

    start(cluster, namespace, "red", "red-here", first)
    wait_until(lambda: is_unschedulable(cluster, "red-here", namespace), "nobody else is put on the node", 30)
    assert imports(namespace, f"red-{len(others) - 1}", handle), "the shared domain's other nodes go on"

    cluster.delete(POD, "alone-1", namespace)
    workload.wait_running(cluster, ["red-here"], namespace)
    assert domain_of(cluster, first) == shared
    assert imports(namespace, "red-here", handle)
    assert {node: instance_of(cluster, node) for node in others} == {node: before[node] for node in others}, "no other nvidia-imex restarts"
    wait_until(lambda: not [d for d in cluster.list(IMEX_DOMAIN) if d["spec"]["mode"] == "Exclusive"], "the exclusive domain removed", 30)


def test_nodes_of_an_exclusive_domain_share_memory(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    create(cluster, namespace, "alone", isolationMode="Domain")
    for n, node in enumerate(nodes[:2]):
        start(cluster, namespace, "alone", f"alone-{n}", node)
    workload.wait_running(cluster, ["alone-0", "alone-1"], namespace)
    handle = workload.handle_of(cluster, "alone-0", namespace)
    wait_until(lambda: imports(namespace, "alone-1", handle), "memory of the other node imported", 30)
    accepted = condition(cluster.get(COMPUTE_DOMAIN, "alone", namespace), "Accepted")
    assert accepted["status"] == "True" and "one pod of this ComputeDomain per node" in accepted["message"]


def test_all_channels_of_the_driver_are_in_the_container(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    create(cluster, namespace, "all", mode="All", isolationMode="Domain")
    start(cluster, namespace, "all", "all-1", nodes[0])
    workload.wait_running(cluster, ["all-1"], namespace)
    assert workload.channels_of("all-1", namespace) == list(range(CHANNELS))
    for channel in (0, CHANNELS - 1):
        listed = run_in_pod("all-1", "sh", "-c", f"{workload.MNNVL} channels | grep -w {channel}", namespace=namespace)
        assert listed.returncode == 0, f"channel {channel} is granted, not only named: {listed.stdout} {listed.stderr}"


def test_exclusive_pod_waits_for_a_node_in_use_and_gets_it_when_its_pods_have_ended(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    create(cluster, namespace, "red")
    create(cluster, namespace, "alone", isolationMode="Domain")
    start(cluster, namespace, "red", "red-1", nodes[0])
    workload.wait_running(cluster, ["red-1"], namespace)
    start(cluster, namespace, "alone", "alone-1", nodes[0])
    wait_until(lambda: is_unschedulable(cluster, "alone-1", namespace), "the exclusive pod kept off a node in use", 30)
    cluster.delete(POD, "red-1", namespace)
    workload.wait_running(cluster, ["alone-1"], namespace)


def test_domains_of_both_modes_compete_without_one_wrong_placement(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    create(cluster, namespace, "red")
    create(cluster, namespace, "one", isolationMode="Domain")
    create(cluster, namespace, "two", isolationMode="Domain", mode="All")
    domains = ["one", "red", "two"] * len(nodes)
    pods = [f"{domain}-{n}" for n, domain in enumerate(domains)]
    for domain, pod in zip(domains, pods, strict=True):
        start(cluster, namespace, domain, pod)
    waiting = set(pods)
    seen: set[tuple[str, ...]] = set()
    while waiting:
        running = wait_until(lambda: [p for p in cluster.list(POD, namespace) if workload.is_running(p)], "somebody runs", 90)
        on: dict[str, list[str]] = {}
        for pod in running:
            on.setdefault(pod["spec"]["nodeName"], []).append(pod["metadata"]["name"])
        for names in on.values():
            owners = {name.rsplit("-", 1)[0] for name in names}
            assert len(names) == 1 or owners == {"red"}, f"together on one node: {names}"
            seen.add(tuple(sorted(owners)))
        for pod in running:
            waiting.discard(pod["metadata"]["name"])
            cluster.delete(POD, pod["metadata"]["name"], namespace, grace=1)
    assert seen == {("one",), ("red",), ("two",)}


def test_claim_for_a_part_of_the_node_is_refused_by_name(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    uid = create(cluster, namespace, "alone", isolationMode="Domain")["metadata"]["uid"]
    cluster.create(CLAIM, claim("part", channel_config(uid)), namespace)
    cluster.create(POD, pod_with_claim("part", nodes[0]), namespace)
    told = "needs all slots of the node; the claim has 1"
    wait_until(lambda: told in events_of(cluster, "part", namespace), "the number of slots in the pod's events", 30)


def test_options_of_a_domain_reach_its_daemon_and_wrong_ones_are_refused_by_name(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    create(cluster, namespace, "alone", isolationMode="Domain", imex={"nodeDisconnectedGraceSeconds": 60, "waitForQuorum": "RECOVERY"})
    start(cluster, namespace, "alone", "alone-1", nodes[0])
    workload.wait_running(cluster, ["alone-1"], namespace)
    config = json.loads(on_node(nodes[0], "cat", f"{PLUGIN_DIR}/daemon/desired/desired.json"))["config"]
    assert (config["nodeDisconnectedGraceSeconds"], config["waitForQuorum"]) == (60, "RECOVERY")

    create(cluster, namespace, "full", isolationMode="Domain", imex={"waitForQuorum": "FULL"})
    accepted = wait_until(lambda: condition(cluster.get(COMPUTE_DOMAIN, "full", namespace), "Accepted"), "a verdict on FULL", 20)
    assert accepted["status"] == "False" and "spec.imex.waitForQuorum: FULL" in accepted["message"]
