"""The driver is uninstalled under running workloads, as it should not be, and installed again."""

from __future__ import annotations

from demo import workload
from demo.workload import Member
from lab.client import (
    CLAIM, COMPUTE_DOMAIN, DAEMON_SET, DEPLOYMENT, IMEX_DOMAIN, POD, SLICE, Cluster, Object, compute_domain_manifest, wait_until,
)

from .conftest import DRIVER_NAMESPACE, driver_ready, leases
from .driver_pods import pods_of
from .node_files import cdi_files, checkpoint_claims, lab


def uninstall(cluster: Cluster) -> None:
    """The commands of docs/install.md."""
    lab("kubectl", "-n", DRIVER_NAMESPACE, "delete", "daemonset", "compute-domain-daemon", "--cascade=foreground")
    lab("helm", "uninstall", "computedomain-driver", "--namespace", DRIVER_NAMESPACE)
    wait_until(lambda: not any(pods_of(cluster, part) for part in ("controller", "kubelet-plugin", "daemon")), "the driver's pods gone", 120)
    assert not cluster.list(DAEMON_SET, DRIVER_NAMESPACE) and not cluster.list(DEPLOYMENT, DRIVER_NAMESPACE)


def restarts(cluster: Cluster, names: list[str], namespace: str) -> dict[str, int]:
    return {name: cluster.get(POD, name, namespace)["status"]["containerStatuses"][0]["restartCount"] for name in names}


def test_driver_installed_again_finds_its_workloads_and_leaves_nothing(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    stays = [Member("red", f"stays-{n}", node) for n, node in enumerate(nodes[:2])]
    ends = Member("red", "ends", nodes[0])
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    for member in [*stays, ends]:
        cluster.create(POD, workload.exporter(member, "red-channel"), namespace)
    workload.wait_running(cluster, [m.pod for m in [*stays, ends]], namespace)
    channel = workload.channels_of("stays-0", namespace)
    before = restarts(cluster, [m.pod for m in stays], namespace)
    domains = {d["metadata"]["uid"] for d in cluster.list(IMEX_DOMAIN)}

    uninstall(cluster)
    assert restarts(cluster, [m.pod for m in stays], namespace) == before, "the workloads run on"
    assert {d["metadata"]["uid"] for d in cluster.list(IMEX_DOMAIN)} == domains and leases(cluster, namespace), "Helm leaves CRDs and objects"
    cluster.delete(POD, ends.pod, namespace)
    lab("install", timeout=240)
    wait_until(lambda: driver_ready(cluster, nodes) and len(cluster.list(SLICE)) >= len(nodes), "the driver ready again", 120)
    wait_until(lambda: not cluster.find(POD, ends.pod, namespace), "the pod that was deleted meanwhile gone", 120)

    comes = [Member("red", f"comes-{n}", node) for n, node in enumerate(nodes[:2])]
    for member in comes:
        cluster.create(POD, workload.exporter(member, "red-channel"), namespace)
    workload.wait_running(cluster, [m.pod for m in comes], namespace)
    assert workload.channels_of("comes-0", namespace) == workload.channels_of("comes-1", namespace) == channel
    handle = workload.handle_of(cluster, "comes-1", namespace)
    for importer in ("comes-0", "stays-0"):
        result = workload.import_memory(importer, handle, namespace)
        assert result.returncode == 0 and comes[1].memory in result.stdout, result
    assert restarts(cluster, [m.pod for m in stays], namespace) == before

    for member in [*stays, *comes]:
        cluster.delete(POD, member.pod, namespace)
    cluster.delete(COMPUTE_DOMAIN, "red", namespace)
    wait_until(lambda: not leases(cluster, namespace), "the lease freed", 60)
    daemons = {uid for pod in pods_of(cluster, "daemon") for uid in claim_uids(cluster, pod)}
    for node in nodes:
        assert set(checkpoint_claims(node)) <= daemons, f"checkpoint entries left on {node}"
        assert not [name for name in cdi_files(node) if not any(uid in name for uid in daemons)], f"CDI files left on {node}"


def claim_uids(cluster: Cluster, pod: Object) -> list[str]:
    names = [status["resourceClaimName"] for status in pod["status"].get("resourceClaimStatuses", [])]
    return [cluster.get(CLAIM, name, DRIVER_NAMESPACE)["metadata"]["uid"] for name in names]
