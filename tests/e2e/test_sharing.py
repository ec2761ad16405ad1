"""Who shares memory with whom: the promise of a ComputeDomain, proved by imports between containers."""

from __future__ import annotations

from demo import workload
from demo.workload import Member
from lab.client import CLAIM, COMPUTE_DOMAIN, POD, Cluster, compute_domain_manifest, condition, pod_manifest, wait_until

from .conftest import leases
from .test_bad_input import channel_config, claim, pod_with_claim


def start(cluster: Cluster, namespace: str, members: list[Member]) -> None:
    for domain in sorted({m.domain for m in members}):
        cluster.create(COMPUTE_DOMAIN, compute_domain_manifest(domain), namespace)
    for member in members:
        cluster.create(POD, workload.exporter(member, f"{member.domain}-channel"), namespace)
    workload.wait_running(cluster, [m.pod for m in members], namespace)


def test_pods_of_several_domains_share_nodes_each_with_exactly_one_channel(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    first, second = nodes[:2]
    members = [Member("red", "red-1", first), Member("red", "red-2", first), Member("red", "red-3", second),
               Member("blue", "blue-1", first), Member("blue", "blue-2", second)]
    start(cluster, namespace, members)
    held = {m.pod: workload.channels_of(m.pod, namespace) for m in members}
    assert all(len(channels) == 1 for channels in held.values()), held
    red = {held[m.pod][0] for m in members if m.domain == "red"}
    blue = {held[m.pod][0] for m in members if m.domain == "blue"}
    assert len(red) == 1 and len(blue) == 1, "one ComputeDomain has one channel on every node of the clique"
    assert red != blue and min(red | blue) >= 1
    assert {(lease["computeDomain"]["name"], lease["channel"]) for lease in leases(cluster, namespace)} == {
        ("red", red.pop()), ("blue", blue.pop())}


def test_memory_is_imported_across_nodes_in_both_directions_and_only_inside_the_domain(
        cluster: Cluster, nodes: list[str], namespace: str) -> None:
    red = [Member("red", "red-1", nodes[0]), Member("red", "red-2", nodes[1])]
    blue = [Member("blue", "blue-1", nodes[0]), Member("blue", "blue-2", nodes[1])]
    start(cluster, namespace, red + blue)
    handles = {m.pod: workload.handle_of(cluster, m.pod, namespace) for m in red + blue}
    for importer, exporter in ((red[0], red[1]), (red[1], red[0]), (blue[0], blue[1]), (blue[1], blue[0])):
        result = workload.import_memory(importer.pod, handles[exporter.pod], namespace)
        assert result.returncode == 0 and exporter.memory in result.stdout, result
    for importer, exporter in ((blue[0], red[0]), (blue[1], red[0]), (red[1], blue[0]), (red[0], blue[0])):
        result = workload.import_memory(importer.pod, handles[exporter.pod], namespace)
        assert result.returncode != 0 and "INSUFFICIENT_PERMISSIONS" in result.stderr, result
        assert exporter.memory not in result.stdout


def test_device_node_made_by_the_container_itself_grants_nothing(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    red = Member("red", "red-1", nodes[0])
    blue = [Member("blue", "blue-1", nodes[0]), Member("blue", "blue-2", nodes[1])]
    start(cluster, namespace, [red, *blue])
    channel = workload.channels_of("red-1", namespace)[0]
    handle = workload.handle_of(cluster, "red-1", namespace)
    for intruder in blue:
        forged = workload.forge_device_node(intruder.pod, channel, namespace)
        assert forged.returncode == 0, forged
        result = workload.import_memory(intruder.pod, handle, namespace, "--channel", str(channel))
        assert result.returncode != 0 and "INSUFFICIENT_PERMISSIONS" in result.stderr, result


def test_claim_that_pods_hand_on_between_nodes_makes_none_of_them_wait(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    """The kubelet unprepares the claim for its last user while it prepares it for the next; it would try again only after a minute."""
    uid = cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)["metadata"]["uid"]
    cluster.create(CLAIM, claim("shared", channel_config(uid)), namespace)
    before = ""
    for round_ in range(10):
        pod = pod_with_claim("shared", nodes[round_ % 3 % 2])
        name = pod["metadata"]["name"] = f"red-{round_}"
        if before:
            cluster.delete(POD, before, namespace, grace=0)
        cluster.create(POD, pod, namespace)
        workload.wait_running(cluster, [name], namespace, 30)
        before = name
    assert len(workload.channels_of(before, namespace)) == 1


def test_pod_without_claim_has_no_channel(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    start(cluster, namespace, [Member("red", "red-1", nodes[0])])
    cluster.create(POD, pod_manifest("plain", nodes[0]), namespace)
    workload.wait_running(cluster, ["plain"], namespace)
    assert workload.channels_of("plain", namespace) == []
    result = workload.import_memory("plain", workload.handle_of(cluster, "red-1", namespace), namespace)
    assert result.returncode != 0 and "INSUFFICIENT_PERMISSIONS" in result.stderr, result


def test_status_tells_nodes_partition_and_channel(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    members = [Member("red", f"red-{n}", node) for n, node in enumerate(nodes)]
    start(cluster, namespace, members)

    def ready() -> dict:
        status = cluster.get(COMPUTE_DOMAIN, "red", namespace).get("status", {})
        return status if status.get("nodeSummary", {}).get("ready") == len(nodes) else {}

    status = wait_until(ready, "all nodes ready in the status", 30)
    assert condition({"status": status}, "Accepted")["status"] == "True"
    assert condition({"status": status}, "Ready")["status"] == "True"
    assert status["nodeSummary"] == {"total": len(nodes), "ready": len(nodes)}
    assert [(p["channel"], p["nodes"], p["readyNodes"]) for p in status["partitions"]] == [
        (workload.channels_of("red-0", namespace)[0], len(nodes), len(nodes))]
    assert sorted(m["node"] for m in status["members"]) == nodes


def test_a_domain_that_asks_for_what_cannot_be_is_refused_by_name(cluster: Cluster, namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("all-of-it", isolationMode="Domain", imex={"waitForQuorum": "FULL"}), namespace)
    accepted = wait_until(lambda: condition(cluster.get(COMPUTE_DOMAIN, "all-of-it", namespace), "Accepted"), "a verdict", 20)
    assert accepted["status"] == "False" and "spec.imex.waitForQuorum: FULL" in accepted["message"], accepted
