"""Faults of people: objects deleted or edited by hand."""

from __future__ import annotations

from lab.client import COMPUTE_DOMAIN, IMEX_DOMAIN, IMEX_NODE, NAMESPACE, NODE, POD, SLICE, Object, wait_until

from tests.e2e.driver_pods import imex_processes

from .driver_faults import end_within
from .load import make_namespace
from .stage import Stage, fault
from .verdict import now

DRIVER = "compute-domain.nvidia.com"


def slices_of(stage: Stage) -> list[Object]:
    return [s for s in stage.cluster.list(SLICE, fieldSelector=f"spec.nodeName={stage.node}") if s["spec"]["driver"] == DRIVER]


@fault()
def delete_slices(stage: Stage) -> None:
    for found in slices_of(stage):
        stage.cluster.delete(SLICE, found["metadata"]["name"])


@fault()
def edit_slice(stage: Stage) -> None:
    """Somebody takes devices out of a slice; its owner puts them back."""
    found = slices_of(stage)[0]
    name, devices = found["metadata"]["name"], len(found["spec"]["devices"])
    stage.cluster.patch(SLICE, name, {"spec": {"devices": found["spec"]["devices"][:1]}})
    wait_until(lambda: sum(len(s["spec"]["devices"]) for s in slices_of(stage)) == devices, f"{devices} devices in the slice of {stage.node}", 60)


@fault()
def delete_imexnode(stage: Stage) -> None:
    stage.cluster.delete(IMEX_NODE, stage.node)


@fault()
def wipe_imexnode_status(stage: Stage) -> None:
    stage.cluster.patch(IMEX_NODE, stage.node, {"status": None}, subresource="status")


@fault()
def wipe_imexnode_domain(stage: Stage) -> None:
    stage.cluster.patch(IMEX_NODE, stage.node, {"spec": {"domain": None}})


def domain_of(stage: Stage) -> str:
    return stage.cluster.get(IMEX_NODE, stage.node)["spec"]["domain"]["name"]


@fault()
def delete_imexdomain(stage: Stage) -> None:
    """It stays in service as long as it has members."""
    stage.cluster.delete(IMEX_DOMAIN, domain_of(stage))


@fault()
def lose_imexdomain(stage: Stage) -> None:
    """Deleted without regard of its finalizer: it is made anew from what the nodes report."""
    name = domain_of(stage)
    stage.cluster.delete(IMEX_DOMAIN, name)
    stage.cluster.patch(IMEX_DOMAIN, name, {"metadata": {"finalizers": None}})


@fault("node")
def drop_labels(stage: Stage) -> None:
    """Kubernetes deletes the node's daemon if it sees that its label is gone; the plugin sets it again."""
    pids = imex_processes(stage.cluster)[stage.node]
    labels = stage.cluster.get(NODE, stage.node)["metadata"]["labels"]
    ours = {label: None for label in labels if label in ("nvidia.com/gpu.clique", "resource.nvidia.com/imex-daemon")}
    stage.cluster.patch(NODE, stage.node, {"metadata": {"labels": ours}})
    wait_until(lambda: ours.keys() <= stage.cluster.get(NODE, stage.node)["metadata"]["labels"].keys(), f"labels of {stage.node} back", 60)
    end_within(pids, 8)


@fault("domain")
def force_delete_pod(stage: Stage) -> None:
    stage.cluster.delete(POD, stage.domain.pod_name(stage.node), stage.domain.namespace, grace=0)


@fault("domain")
def remake_domain(stage: Stage) -> None:
    stage.domain.delete(stage.dice.choice((None, 0)))
    stage.domain.create()


@fault()
def delete_domain_under_its_pods(stage: Stage) -> None:
    """The pods go on sharing memory; only then they are replaced by those of a new domain."""
    domain = stage.domain
    begin = now()
    stage.cluster.delete(COMPUTE_DOMAIN, domain.name, domain.namespace)
    wait_until(lambda: not stage.cluster.find(COMPUTE_DOMAIN, domain.name, domain.namespace), f"{domain.name} gone", 60)
    wait_until(lambda: stage.load.sharing_since(begin), "its pods still share memory", 60)
    stage.load.disturbances.begin("end", domains=frozenset({domain.name}))
    domain.delete()
    domain.create()


@fault("domain")
def remake_namespace(stage: Stage) -> None:
    stage.cluster.delete(NAMESPACE, stage.domain.namespace)
    wait_until(lambda: not stage.cluster.find(NAMESPACE, stage.domain.namespace), f"namespace {stage.domain.namespace} gone", 90)
    make_namespace(stage.cluster, stage.domain.namespace)
    stage.domain.create()
