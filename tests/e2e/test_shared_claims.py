"""One claim, made by hand, that many pods of a node share."""

from __future__ import annotations

from demo import workload
from lab.client import CLAIM, COMPUTE_DOMAIN, IMEX_NODE, POD, Cluster, wait_until

from .audit import READS, Recording
from .conftest import leases, reported_channels
from .node_files import cdi_files, checkpoint, checkpoint_claims
from .test_bad_input import channel_config, claim, pod_with_claim
from .test_deletion import make_domain, run_one

PODS = 8


def start(cluster: Cluster, namespace: str, node: str, names: list[str]) -> None:
    for name in names:
        pod = pod_with_claim("shared", node)
        pod["metadata"]["name"] = name
        pod["spec"]["containers"][0]["command"] = [workload.MNNVL, "export", "--text", f"memory of {name}"]
        cluster.create(POD, pod, namespace)
    workload.wait_running(cluster, names, namespace)


def test_many_pods_on_one_claim_are_one_entry_also_when_it_is_deleted_under_them(
        cluster: Cluster, nodes: list[str], namespace: str) -> None:
    node = nodes[0]
    domain = make_domain(cluster, namespace, "red")
    uid = cluster.create(CLAIM, claim("shared", channel_config(domain)), namespace)["metadata"]["uid"]
    first, *others = [f"red-{n}" for n in range(PODS)]
    start(cluster, namespace, node, [first])
    channels = workload.channels_of(first, namespace)

    def settled() -> bool:
        return cluster.get(COMPUTE_DOMAIN, "red", namespace)["status"].get("nodeSummary") == {"total": 1, "ready": 1}

    wait_until(settled, "the status settled", 30)
    recording = Recording()
    start(cluster, namespace, node, others)
    assert not [r for r in recording.requests() if r[1] not in READS], recording.table()
    assert [entry["claim"]["uid"] for entry in checkpoint(node)["claims"]].count(uid) == 1
    assert len([name for name in cdi_files(node) if uid in name]) == 1

    # Kubernetes keeps a deleted claim for as long as pods use it: a zombie, allocated and reserved.
    cluster.delete(CLAIM, "shared", namespace)
    wait_until(lambda: "deletionTimestamp" in cluster.get(CLAIM, "shared", namespace)["metadata"], "the claim being deleted", 20)
    wait_until(lambda: cluster.get(COMPUTE_DOMAIN, "red", namespace)["status"]["nodeSummary"]["total"] == 0, "it counts no more", 30)
    handle = workload.handle_of(cluster, first, namespace)
    shared = workload.import_memory(others[-1], handle, namespace)
    assert shared.returncode == 0 and f"memory of {first}" in shared.stdout, shared
    assert reported_channels(cluster, domain) == {node: channels}, "what runs holds its channel"
    assert run_one(cluster, namespace, "red", node) == channels[0], "a pod with a claim of its own joins them"

    for name in [first, *others, "red-pod"]:
        cluster.delete(POD, name, namespace, grace=0)
    wait_until(lambda: not cluster.list(CLAIM, namespace), "the claims gone with the last pod", 60)
    wait_until(lambda: uid not in checkpoint_claims(node) and not reported_channels(cluster, domain), "nothing of it left on the node", 60)
    cluster.delete(COMPUTE_DOMAIN, "red", namespace)
    wait_until(lambda: not leases(cluster, namespace), "its number free", 30)
    assert cluster.get(IMEX_NODE, node)["status"].get("lostPrepares", []) == []
