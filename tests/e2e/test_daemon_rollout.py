"""An upgrade changes the IMEX daemon: nodes that hold no channel get the new one, the others keep theirs until they are idle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo import workload
from demo.workload import Member
from lab.client import COMPUTE_DOMAIN, DAEMON_SET, IMEX_NODE, POD, Cluster, compute_domain_manifest, wait_until

from .conftest import DRIVER_NAMESPACE, driver_ready
from .driver_pods import imex_processes, pods_of
from .node_files import lab

CHART = "deploy/chart/computedomain-driver"
REVISION = "resource.nvidia.com/daemon-revision"


def upgrade(*values: str) -> None:
    lab("helm", "upgrade", "computedomain-driver", CHART, "--namespace", DRIVER_NAMESPACE, "--reuse-values", *values, timeout=120)


def wanted_revision(cluster: Cluster) -> str:
    daemons = cluster.get(DAEMON_SET, "compute-domain-daemon", DRIVER_NAMESPACE)
    return daemons["spec"]["template"]["metadata"]["labels"][REVISION]


def revisions(cluster: Cluster) -> dict[str, str]:
    """node → revision of the daemon that serves it; empty while one is being replaced."""
    return {n["metadata"]["name"]: "" if n["spec"].get("maintenance") or n["status"]["daemon"]["state"] != "Ready"
            else n["status"]["daemon"].get("revision", "") for n in cluster.list(IMEX_NODE)}


@pytest.fixture
def other_daemons(cluster: Cluster, nodes: list[str]) -> Iterator[str]:
    """The revision of an upgrade that changes nothing but the daemon; it is taken back in the end."""
    upgrade("--set=imexDaemon.resources.memory=257Mi")
    yield wanted_revision(cluster)
    upgrade("--set=imexDaemon.resources.memory=256Mi")
    before = wanted_revision(cluster)
    wait_until(lambda: set(revisions(cluster).values()) == {before} and driver_ready(cluster, nodes), "the former daemons on every node", 180)


def test_daemons_are_replaced_where_no_channel_is_held_and_nowhere_else(
        cluster: Cluster, nodes: list[str], namespace: str, request: pytest.FixtureRequest) -> None:
    busy, idle = nodes[:2], nodes[2:]
    assert idle, "this test needs a node without workload"
    members = [Member("red", f"red-{n}", node) for n, node in enumerate(busy)]
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    for member in members:
        cluster.create(POD, workload.exporter(member, "red-channel"), namespace)
    workload.wait_running(cluster, [m.pod for m in members], namespace)
    handle = workload.handle_of(cluster, "red-1", namespace)
    before, old = imex_processes(cluster), revisions(cluster)

    new = request.getfixturevalue("other_daemons")
    assert new not in old.values()
    wait_until(lambda: all(revisions(cluster)[n] == new for n in idle), "the new daemon on idle nodes", 180)

    now = imex_processes(cluster)
    assert {n: now[n] for n in busy} == {n: before[n] for n in busy}, "nvidia-imex under workloads is the same process"
    assert {revisions(cluster)[n] for n in busy} == set(old.values()), "and the controller has left its nodes alone"
    result = workload.import_memory("red-0", handle, namespace)
    assert result.returncode == 0 and members[1].memory in result.stdout, result

    late = Member("red", "red-late", idle[0])
    cluster.create(POD, workload.exporter(late, "red-channel"), namespace)
    workload.wait_running(cluster, [late.pod], namespace)
    result = workload.import_memory("red-late", handle, namespace)
    assert result.returncode == 0, f"old and new daemons are one IMEX domain: {result}"

    for member in [*members, late]:
        cluster.delete(POD, member.pod, namespace)
    cluster.delete(COMPUTE_DOMAIN, "red", namespace)
    wait_until(lambda: set(revisions(cluster).values()) == {new}, "the new daemon everywhere once the pods have ended", 180)
    wait_until(lambda: len(pods_of(cluster, "daemon")) == len(nodes), "the former daemons' pods gone", 60)
