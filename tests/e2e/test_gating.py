"""Gating: a gang is held until it has formed, and starts together."""

from __future__ import annotations

import time

from demo import workload
from lab.client import (
    COMPUTE_DOMAIN, EVENT, POD, Cluster, Kind, Object, compute_domain_manifest, condition, pod_manifest, wait_until,
)

STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
JOB = Kind("batch/v1", "Job", "jobs")


def domain(name: str, **gating: object) -> Object:
    return compute_domain_manifest(name, gating={"settleSeconds": 1, **gating})


def formed(cluster: Cluster, name: str, namespace: str) -> Object:
    return condition(cluster.get(COMPUTE_DOMAIN, name, namespace), "Formed")


def phase(cluster: Cluster, pod: str, namespace: str) -> str:
    return cluster.get(POD, pod, namespace)["status"].get("phase", "")


def messages(cluster: Cluster, pod: str, namespace: str) -> str:
    return "\n".join(e["message"] for e in cluster.list(EVENT, namespace, fieldSelector=f"involvedObject.name={pod}"))


def create_pods(cluster: Cluster, namespace: str, pods: dict[str, str]) -> None:
    for name, node in pods.items():
        cluster.create(POD, pod_manifest(name, node, "red-channel"), namespace)


def template(node: str = "") -> Object:
    spec = pod_manifest("unused", node, "red-channel")["spec"]
    return {"metadata": {"labels": {"app": "red"}}, "spec": spec}


def test_pods_are_held_until_all_are_there_and_a_second_gang_is_held_again(
        cluster: Cluster, nodes: list[str], namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, domain("red", minNodes=2), namespace)
    for gang in ("one", "two"):
        create_pods(cluster, namespace, {f"{gang}-1": nodes[0]})
        # Past the end of its first wait: the kubelet by itself would try again a minute later only.
        wait_until(lambda g=gang: "held until it has formed" in messages(cluster, f"{g}-1", namespace), "the pod to say that it is held", 40)
        assert phase(cluster, f"{gang}-1", namespace) == "Pending"
        wait_until(lambda: formed(cluster, "red", namespace).get("reason") == "NodesMissing", "the condition to say what is missing", 20)
        began = time.monotonic()
        create_pods(cluster, namespace, {f"{gang}-2": nodes[1]})
        workload.wait_running(cluster, [f"{gang}-1", f"{gang}-2"], namespace, 30)
        assert time.monotonic() - began < 20, "woken, not found by chance"
        wait_until(lambda: formed(cluster, "red", namespace)["status"] == "True", "the condition Formed", 20)
        # One who comes late starts, though nothing new has formed.
        create_pods(cluster, namespace, {f"{gang}-late": nodes[-1]})
        workload.wait_running(cluster, [f"{gang}-late"], namespace, 30)
        for pod in (f"{gang}-1", f"{gang}-2", f"{gang}-late"):
            cluster.delete(POD, pod, namespace, 0)
        wait_until(lambda: not cluster.list(POD, namespace), "the gang gone", 60)


def test_job_declares_its_pods(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, domain("red"), namespace)
    # Two can be placed (one pod to a node by anti-affinity), a third one has to wait for a node that takes it.
    body = template()
    body["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "red"}}, "topologyKey": "kubernetes.io/hostname"}]}}
    body["spec"]["schedulingGates"] = [{"name": "test/later"}]
    cluster.create(JOB, {"metadata": {"name": "red"}, "spec": {"parallelism": 2, "completions": 2, "template": body}}, namespace)
    pods = wait_until(lambda: len(found := cluster.list(POD, namespace)) == 2 and [p["metadata"]["name"] for p in found], "two pods", 30)
    cluster.patch(POD, pods[0], {"spec": {"schedulingGates": None}}, namespace)
    wait_until(lambda: formed(cluster, "red", namespace).get("reason") == "PodsMissing", "one of two pods", 30)
    assert "Job red" in formed(cluster, "red", namespace)["message"]
    cluster.patch(POD, pods[1], {"spec": {"schedulingGates": None}}, namespace)
    workload.wait_running(cluster, pods, namespace, 60)
    cluster.delete(JOB, "red", namespace)


def test_ordered_stateful_set_is_told_apart_and_editing_frees_it(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, domain("red"), namespace)
    body = template()
    body["spec"]["restartPolicy"] = "Always"
    cluster.create(STATEFUL_SET, {"metadata": {"name": "red"}, "spec": {
        "replicas": 2, "serviceName": "red", "selector": {"matchLabels": {"app": "red"}}, "template": body}}, namespace)
    wait_until(lambda: formed(cluster, "red", namespace).get("reason") == "OwnerWaitsForReadiness", "the condition to name the owner", 30)
    assert "StatefulSet red" in formed(cluster, "red", namespace)["message"]
    cluster.patch(COMPUTE_DOMAIN, "red", {"spec": {"gating": None}}, namespace)
    try:
        workload.wait_running(cluster, ["red-0"], namespace, 40)
        wait_until(lambda: cluster.find(POD, "red-1", namespace), "the second pod", 30)
    finally:
        cluster.delete(STATEFUL_SET, "red", namespace)


def test_time_out_fail_refuses_with_the_reason_and_release_starts(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    cluster.create(COMPUTE_DOMAIN, domain("red", minNodes=9, timeoutSeconds=2), namespace)
    create_pods(cluster, namespace, {"pod": nodes[0]})
    wait_until(lambda: formed(cluster, "red", namespace).get("reason") == "TimedOut", "the condition", 30)
    wait_until(lambda: "GateTimedOut" in messages(cluster, "pod", namespace), "the refusal in the pod's events", 120)
    assert phase(cluster, "pod", namespace) == "Pending"
    cluster.patch(COMPUTE_DOMAIN, "red", {"spec": {"gating": {"onTimeout": "Release"}}}, namespace)
    workload.wait_running(cluster, ["pod"], namespace, 30)
    assert formed(cluster, "red", namespace)["status"] == "False"
