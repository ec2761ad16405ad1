"""Metadata of others on a ComputeDomain: kept as it is, and not carried on."""

from __future__ import annotations

from lab.client import CLAIM, CLAIM_TEMPLATE, COMPUTE_DOMAIN, POD, Cluster, Kind, compute_domain_manifest, condition, wait_until

from .conftest import leases
from .test_deletion import run_one

CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
THEIRS = "operator.example/guard"
LABELS = {"kai.scheduler/queue": "team-a"}


def test_metadata_of_others_is_kept_and_a_foreign_finalizer_keeps_nothing_of_ours(
        cluster: Cluster, nodes: list[str], namespace: str) -> None:
    owner = cluster.create(CONFIG_MAP, {"metadata": {"name": "pipeline"}}, namespace)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "pipeline", "uid": owner["metadata"]["uid"]}
    # The API server's limit for all annotations together is 256 KiB.
    annotations = {"argocd.argoproj.io/tracking-id": "team:resource.nvidia.com/ComputeDomain:red", "tool.example/noise": "x" * (250 << 10)}
    manifest = compute_domain_manifest("red")
    manifest["metadata"] |= {"labels": LABELS, "annotations": annotations, "finalizers": [THEIRS], "ownerReferences": [reference]}
    cluster.create(COMPUTE_DOMAIN, manifest, namespace)
    assert run_one(cluster, namespace, "red", nodes[0]) >= 1

    def ready() -> bool:
        return condition(cluster.get(COMPUTE_DOMAIN, "red", namespace), "Ready").get("status") == "True"

    wait_until(ready, "its status written", 30)
    metadata = cluster.get(COMPUTE_DOMAIN, "red", namespace)["metadata"]
    assert metadata["annotations"] == annotations and metadata["labels"] == LABELS and metadata["ownerReferences"] == [reference]
    assert THEIRS in metadata["finalizers"] and len(metadata["finalizers"]) == 2, "theirs and ours"
    template = cluster.get(CLAIM_TEMPLATE, "red-channel", namespace)
    (claim,) = cluster.list(CLAIM, namespace)
    assert LABELS.items() <= claim["metadata"]["labels"].items(), "a scheduler may ask for them on claims"
    for made in (template, claim):
        assert not annotations.keys() & made["metadata"].get("annotations", {}).keys(), "noise stays where it is"

    cluster.delete(COMPUTE_DOMAIN, "red", namespace)
    cluster.delete(POD, "red-pod", namespace)
    wait_until(lambda: not cluster.find(CLAIM_TEMPLATE, "red-channel", namespace) and not leases(cluster, namespace),
               "template and number gone although the ComputeDomain is still there", 60)
    assert cluster.get(COMPUTE_DOMAIN, "red", namespace)["metadata"]["finalizers"] == [THEIRS]
    cluster.patch(COMPUTE_DOMAIN, "red", {"metadata": {"finalizers": []}}, namespace)
    wait_until(lambda: not cluster.find(COMPUTE_DOMAIN, "red", namespace), "the ComputeDomain gone", 20)
