"""No crash of ours, and none of the API server, disturbs a running workload; new pods work after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from demo import workload
from demo.workload import Member
from lab.client import (
    COMPUTE_DOMAIN, DAEMON_SET, EVENT, IMEX_NODE, NODE, POD, SLICE, ApiError, Cluster, compute_domain_manifest, wait_until,
)

from .conftest import DRIVER_NAMESPACE, driver_ready
from .driver_pods import PLUGIN_SET, PROGRAMS, imex_processes, kill, kill_all, plugins_rolled_out, pods_of
from .node_files import checkpoint_claims, lab, processes_of_pod

# A label of our own: those of Kubernetes are put right by the kubelet when it thinks of it.
ABSENT_LABEL = "e2e.computedomain/plugin"
UNLESS_ABSENT = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": ABSENT_LABEL, "operator": "NotIn", "values": ["absent"]}]}]}}}


def kill_api_server(_: Cluster) -> None:
    lab("component", "kill", "kube-apiserver")
    lab("component", "start", "kube-apiserver")


def answers(cluster: Cluster) -> bool:
    try:
        return bool(cluster.list(IMEX_NODE))
    except (ApiError, OSError):
        return False


FAULTS: dict[str, Callable[[Cluster], None]] = {
    "controller": lambda cluster: kill_all(cluster, "controller"),
    "kubelet-plugin": lambda cluster: kill_all(cluster, "kubelet-plugin"),
    "kube-apiserver": kill_api_server,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_killing_a_part_disturbs_no_pod_and_new_pods_work(cluster: Cluster, nodes: list[str], namespace: str, fault: str) -> None:
    red = [Member("red", "red-1", nodes[0]), Member("red", "red-2", nodes[1])]
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    for member in red:
        cluster.create(POD, workload.exporter(member, "red-channel"), namespace)
    workload.wait_running(cluster, [m.pod for m in red], namespace)
    handle = workload.handle_of(cluster, "red-1", namespace)
    restarts = {p["metadata"]["name"]: p["status"]["containerStatuses"][0]["restartCount"] for p in cluster.list(POD, namespace)}
    imex = imex_processes(cluster)
    assert all(len(pids) == 1 for pids in imex.values()), imex

    FAULTS[fault](cluster)
    result = workload.import_memory("red-2", handle, namespace) if fault != "kube-apiserver" else None
    assert result is None or result.returncode == 0, result

    wait_until(lambda: answers(cluster), "the API server answers", 60)
    wait_until(lambda: driver_ready(cluster, nodes), "the driver ready again", 90)
    assert imex_processes(cluster) == imex, "nvidia-imex kept its process"
    result = workload.import_memory("red-2", handle, namespace)
    assert result.returncode == 0 and red[0].memory in result.stdout, result
    after = {p["metadata"]["name"]: p["status"]["containerStatuses"][0]["restartCount"] for p in cluster.list(POD, namespace)}
    assert after == restarts, "no pod was restarted"

    more = [Member("red", "red-3", nodes[1]), Member("blue", "blue-1", nodes[0])]
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("blue"), namespace)
    for member in more:
        cluster.create(POD, workload.exporter(member, f"{member.domain}-channel"), namespace)
    workload.wait_running(cluster, [m.pod for m in more], namespace, 120)
    assert workload.channels_of("red-3", namespace) == workload.channels_of("red-1", namespace)
    assert workload.channels_of("blue-1", namespace) != workload.channels_of("red-1", namespace)


def test_pod_deleted_while_the_api_server_is_down_is_torn_down_after(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    cluster.create(POD, workload.exporter(Member("red", "red-1", nodes[0]), "red-channel"), namespace)
    workload.wait_running(cluster, ["red-1"], namespace)
    cluster.delete(POD, "red-1", namespace, grace=1)
    kill_api_server(cluster)
    wait_until(lambda: answers(cluster), "the API server answers", 60)
    wait_until(lambda: not cluster.find(POD, "red-1", namespace), "the pod gone", 90)


def test_killed_nvidia_imex_comes_back_in_the_same_slot_with_a_new_instance(cluster: Cluster, nodes: list[str]) -> None:
    def daemon(node: str) -> dict:
        return cluster.get(IMEX_NODE, node)["status"]["daemon"]

    before = daemon(nodes[0])
    kill(imex_processes(cluster)[nodes[0]], "nvidia-imex")

    def back() -> bool:
        now = daemon(nodes[0])
        return now["state"] == "Ready" and now["instance"] != before["instance"]

    wait_until(back, "nvidia-imex READY again with a new instance", 60)
    assert daemon(nodes[0])["index"] == before["index"]


def test_plugin_that_starts_without_the_api_server_leaves_nvidia_imex_alone(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    """Until it has read the node's assignment it must not take it for a missing one, whatever else changes on the node meanwhile."""
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    pods = [Member("red", name, nodes[0]) for name in ("stays", "ends")]
    for member in pods:
        cluster.create(POD, workload.exporter(member, "red-channel"), namespace)
    workload.wait_running(cluster, [m.pod for m in pods], namespace)
    imex = imex_processes(cluster)
    held = len(checkpoint_claims(nodes[0]))
    plugin, daemon = (next(p for p in pods_of(cluster, part) if p["spec"]["nodeName"] == nodes[0])["metadata"]["uid"]
                      for part in ("kubelet-plugin", "daemon"))
    ends = cluster.get(POD, "ends", namespace)["metadata"]["uid"]

    def plugin_processes() -> list[int]:
        return processes_of_pod(plugin, PROGRAMS["kubelet-plugin"])

    lab("component", "stop", "kube-apiserver")
    try:
        old = plugin_processes()
        kill(old, "the plugin")
        wait_until(lambda: set(plugin_processes()) - set(old), "the plugin started again", 90)
        kill(processes_of_pod(ends, "mnnvl"), "the pod that ends")
        wait_until(lambda: len(checkpoint_claims(nodes[0])) < held, "the ended pod's channel given up", 90)
        assert processes_of_pod(daemon, "nvidia-imex") == imex[nodes[0]], "nvidia-imex kept its process while the API server was away"
    finally:
        lab("component", "start", "kube-apiserver")
    wait_until(lambda: answers(cluster), "the API server answers", 60)
    wait_until(lambda: driver_ready(cluster, nodes), "the driver ready again", 90)
    assert imex_processes(cluster) == imex, "nvidia-imex kept its process"


@pytest.fixture
def absent_plugin(cluster: Cluster, nodes: list[str]) -> Iterator[str]:
    """A node without kubelet plugin; it comes back when the label goes. The affinity stays: no other node has the label."""
    cluster.patch(DAEMON_SET, PLUGIN_SET, {"spec": {"template": {"spec": {"affinity": UNLESS_ABSENT}}}}, DRIVER_NAMESPACE)
    wait_until(lambda: plugins_rolled_out(cluster, nodes), "the plugins updated", 120)
    cluster.patch(NODE, nodes[0], {"metadata": {"labels": {ABSENT_LABEL: "absent"}}})
    try:
        wait_until(lambda: not pods_of(cluster, "kubelet-plugin", nodes[0]), "the plugin's pod gone", 90)
        yield nodes[0]
    finally:
        cluster.patch(NODE, nodes[0], {"metadata": {"labels": {ABSENT_LABEL: None}}})
        wait_until(lambda: plugins_rolled_out(cluster, nodes), "the plugin back", 120)


def has_refused(cluster: Cluster, pod: str, namespace: str) -> bool:
    events = cluster.list(EVENT, namespace, fieldSelector=f"involvedObject.name={pod}")
    return any(event["reason"] == "FailedPrepareDynamicResources" for event in events)


def registered(cluster: Cluster, node: str) -> str:
    return cluster.get(IMEX_NODE, node)["status"].get("pluginRegistered", "")


@pytest.mark.parametrize("slices", ["stand", "are-wiped"])
def test_pods_bound_while_the_plugin_is_away_run_within_5_seconds_of_its_return(
        cluster: Cluster, nodes: list[str], namespace: str, absent_plugin: str, slices: str) -> None:
    """The kubelet refuses them and would try again after 60 to 90 s; half a minute after the plugin it removes the node's slices."""
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    late = [Member("red", f"late-{n}", absent_plugin) for n in range(3)]
    for member in late:
        cluster.create(POD, workload.exporter(member, "red-channel"), namespace)
    wait_until(lambda: all(has_refused(cluster, m.pod, namespace) for m in late), "all pods refused for want of a plugin", 30)
    before = registered(cluster, absent_plugin)
    if slices == "are-wiped":
        wait_until(lambda: not cluster.list(SLICE, fieldSelector=f"spec.nodeName={absent_plugin}"), "the node's slices removed", 90)
    cluster.patch(NODE, absent_plugin, {"metadata": {"labels": {ABSENT_LABEL: None}}})
    wait_until(lambda: registered(cluster, absent_plugin) != before, "the plugin registered with its kubelet", 60)
    workload.wait_running(cluster, [m.pod for m in late], namespace, 5)
