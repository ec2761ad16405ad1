"""What is left after deletion: nothing, and never a channel number given away too early."""

from __future__ import annotations

from demo import workload
from demo.workload import Member
from lab.client import (
    CLAIM, CLAIM_TEMPLATE, COMPUTE_DOMAIN, POD, Cluster, compute_domain_manifest, pod_manifest, wait_until,
)

from .conftest import leases, reported_channels
from .driver_pods import kill
from .node_files import cdi_files, checkpoint_claims, lingering_claims, processes_of_pod

# Uses its channel, and lets nobody tell it to end.
STUBBORN = ["sh", "-c", f"trap '' TERM; {workload.MNNVL} export --text stubborn & while :; do sleep 1; done"]


def make_domain(cluster: Cluster, namespace: str, name: str) -> str:
    """Creates a ComputeDomain and returns its UID."""
    return cluster.create(COMPUTE_DOMAIN, compute_domain_manifest(name), namespace)["metadata"]["uid"]


def run_one(cluster: Cluster, namespace: str, domain: str, node: str) -> int:
    """One pod of the domain on the node; its channel."""
    name = f"{domain}-pod"
    cluster.create(POD, workload.exporter(Member(domain, name, node), f"{domain}-channel"), namespace)
    workload.wait_running(cluster, [name], namespace)
    return workload.channels_of(name, namespace)[0]


def test_nothing_is_left_after_pods_and_domain_are_deleted(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    uid = make_domain(cluster, namespace, "red")
    members = [Member("red", f"red-{n}", node) for n, node in enumerate(nodes)]
    for member in members:
        cluster.create(POD, workload.exporter(member, "red-channel"), namespace)
    workload.wait_running(cluster, [m.pod for m in members], namespace)
    claims = {c["metadata"]["uid"] for c in cluster.list(CLAIM, namespace)}
    assert all(claims & set(checkpoint_claims(node)) for node in nodes), "the look at checkpoints sees the running claims"
    assert all(any(c in text for c in claims for text in cdi_files(node)) for node in nodes), "the look at CDI files sees them too"

    for member in members:
        cluster.delete(POD, member.pod, namespace)
    cluster.delete(COMPUTE_DOMAIN, "red", namespace)

    wait_until(lambda: not cluster.list(POD, namespace) and not cluster.list(CLAIM, namespace), "pods and claims gone", 60)
    wait_until(lambda: not leases(cluster, namespace), "the lease freed", 30)
    wait_until(lambda: not cluster.find(COMPUTE_DOMAIN, "red", namespace), "the ComputeDomain gone: no finalizer holds it", 30)
    assert cluster.list(CLAIM_TEMPLATE, namespace) == []
    assert reported_channels(cluster, uid) == {}
    for node in nodes:
        assert not claims & set(checkpoint_claims(node)), f"checkpoint entries left on {node}"
        assert not [path for path in cdi_files(node) if any(claim in path for claim in claims)], f"CDI files left on {node}"


def test_domain_deleted_under_running_pods_keeps_its_number_until_they_end(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    uid = make_domain(cluster, namespace, "red")
    channel = run_one(cluster, namespace, "red", nodes[0])
    cluster.delete(COMPUTE_DOMAIN, "red", namespace)
    wait_until(lambda: not cluster.find(COMPUTE_DOMAIN, "red", namespace), "the ComputeDomain gone although a pod runs", 30)
    assert [(lease["channel"], lease["state"]) for lease in leases(cluster, namespace)] == [(channel, "Draining")]
    assert workload.channels_of("red-pod", namespace) == [channel], "the running pod is undisturbed"
    cluster.delete(POD, "red-pod", namespace)
    wait_until(lambda: not leases(cluster, namespace), "the number free once the pod's processes ended", 60)
    assert reported_channels(cluster, uid) == {}


def test_force_deleted_pod_with_an_hour_of_grace_keeps_its_number_until_its_processes_end(
        cluster: Cluster, nodes: list[str], namespace: str) -> None:
    """The kubelet unprepares the claim within a minute, while the container has an hour: Unprepare proves nothing about processes."""
    uid = make_domain(cluster, namespace, "red")
    pod = pod_manifest("stubborn", nodes[0], "red-channel", STUBBORN)
    pod["spec"]["terminationGracePeriodSeconds"] = 3600
    pod_uid = cluster.create(POD, pod, namespace)["metadata"]["uid"]
    workload.wait_running(cluster, ["stubborn"], namespace)
    channel = workload.channels_of("stubborn", namespace)[0]
    handle = workload.handle_of(cluster, "stubborn", namespace)
    claim = cluster.list(CLAIM, namespace)[0]["metadata"]["uid"]
    try:
        cluster.delete(POD, "stubborn", namespace)
        cluster.delete(POD, "stubborn", namespace, grace=0)
        cluster.delete(COMPUTE_DOMAIN, "red", namespace)
        wait_until(lambda: not cluster.find(POD, "stubborn", namespace), "the forced deletion done", 20)
        wait_until(lambda: leases(cluster, namespace)[0]["state"] == "Draining", "the lease draining", 20)
        wait_until(lambda: claim in lingering_claims(nodes[0]), "the claim unprepared", 90)
        holder = processes_of_pod(pod_uid, "mnnvl")
        assert holder, "the process that opened the channel lives on"

        next_uid = make_domain(cluster, namespace, "blue")
        assert run_one(cluster, namespace, "blue", nodes[0]) != channel
        refused = workload.import_memory("blue-pod", handle, namespace)
        assert refused.returncode != 0 and "INSUFFICIENT_PERMISSIONS" in refused.stderr, refused
        assert reported_channels(cluster, uid) == {nodes[0]: [channel]}, "the old number is held while the process lives"
        assert [lease["state"] for lease in leases(cluster, namespace) if lease["computeDomain"]["uid"] == uid] == ["Draining"]
        assert processes_of_pod(pod_uid, "mnnvl") == holder, "nobody had ended it yet"
    finally:
        kill(processes_of_pod(pod_uid, "mnnvl") + processes_of_pod(pod_uid, "busybox"), "the stubborn pod")
    wait_until(lambda: reported_channels(cluster, uid) == {}, "the old container's end reported", 30)
    wait_until(lambda: [lease["computeDomain"]["uid"] for lease in leases(cluster, namespace)] == [next_uid], "the old lease freed", 30)


def test_freed_number_is_not_the_next_one_given(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    make_domain(cluster, namespace, "red")
    first = run_one(cluster, namespace, "red", nodes[0])
    cluster.delete(POD, "red-pod", namespace)
    cluster.delete(COMPUTE_DOMAIN, "red", namespace)
    wait_until(lambda: not leases(cluster, namespace), "the first lease freed", 60)
    make_domain(cluster, namespace, "blue")
    assert run_one(cluster, namespace, "blue", nodes[0]) != first


def test_template_of_that_name_which_is_not_ours_is_left_alone(cluster: Cluster, namespace: str) -> None:
    theirs = {"metadata": {"name": "red-channel", "labels": {"owner": "somebody"}}, "spec": {"spec": {"devices": {"requests": [
        {"name": "x", "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"}}]}}}}
    before = cluster.create(CLAIM_TEMPLATE, theirs, namespace)
    make_domain(cluster, namespace, "red")

    def told() -> str:
        conditions = cluster.get(COMPUTE_DOMAIN, "red", namespace).get("status", {}).get("conditions", [])
        return next((c["message"] for c in conditions if c["status"] == "False" and "red-channel" in c["message"]), "")

    wait_until(told, "a condition that names the template", 20)
    cluster.delete(COMPUTE_DOMAIN, "red", namespace)
    wait_until(lambda: not cluster.find(COMPUTE_DOMAIN, "red", namespace), "the ComputeDomain gone", 30)
    assert cluster.get(CLAIM_TEMPLATE, "red-channel", namespace) == before
    cluster.delete(CLAIM_TEMPLATE, "red-channel", namespace)
