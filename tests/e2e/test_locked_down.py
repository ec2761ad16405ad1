"""Pods that give up every right they can: their channel works all the same."""

from __future__ import annotations

import pytest

from demo import workload
from demo.workload import Member
from lab.client import COMPUTE_DOMAIN, NODE, POD, Cluster, Object, compute_domain_manifest, run_in_pod

LOCKED = {"runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
          "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}


def user_namespaces(cluster: Cluster) -> bool:
    """Whether the container runtime of every node can give a pod users of its own, as its kubelet says."""
    return all(handler.get("features", {}).get("userNamespaces") for node in cluster.list(NODE)
               for handler in node["status"].get("runtimeHandlers") or [{}])


def locked(member: Member, **spec: object) -> Object:
    pod = workload.exporter(member, f"{member.domain}-channel")
    pod["spec"] |= spec
    pod["spec"]["containers"][0]["securityContext"] = LOCKED
    return pod


@pytest.mark.parametrize("users", ["of-the-host", "of-its-own"])
def test_locked_down_pod_opens_its_channel_and_shares_memory(cluster: Cluster, nodes: list[str], namespace: str, users: str) -> None:
    if users == "of-its-own" and not user_namespaces(cluster):
        pytest.skip("the container runtime of this machine knows no user namespaces (Node.status.runtimeHandlers)")
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    members = [Member("red", f"red-{n}", node) for n, node in enumerate(nodes[:2])]
    for member in members:
        cluster.create(POD, locked(member, hostUsers=users == "of-the-host"), namespace)
    workload.wait_running(cluster, [m.pod for m in members], namespace)
    (channel,) = workload.channels_of("red-0", namespace)
    # Nobody stands behind the device here, so that an open that is allowed ends with ENXIO.
    opened = run_in_pod("red-0", "sh", "-c", f"exec 3<>{workload.CHANNEL_DIR}/channel{channel}", namespace=namespace)
    assert "No such device or address" in opened.stderr, opened
    mapped = run_in_pod("red-0", "cat", "/proc/self/uid_map", namespace=namespace).stdout.split()
    assert (mapped[1] == "0") == (users == "of-the-host"), mapped
    for importer, exporter in (members, reversed(members)):
        result = workload.import_memory(importer.pod, workload.handle_of(cluster, exporter.pod, namespace), namespace)
        assert result.returncode == 0 and exporter.memory in result.stdout, result
