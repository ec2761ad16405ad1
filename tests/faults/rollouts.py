"""Updates of the driver under load. Nobody may notice one: every pod that starts meanwhile starts at once, and every node offers its channel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lab import rollout
from lab.client import DAEMON_SET, DEPLOYMENT, EVENT, NODE, SLICE, Cluster, Object, wait_until
from tests.e2e.conftest import DRIVER_NAMESPACE
from tests.e2e.driver_pods import PLUGIN_SET, plugins_rolled_out

from .stage import Stage, fault

DRIVER = "compute-domain.nvidia.com"
FAILED_PREPARE = "FailedPrepareDynamicResources"
CONTROLLER = "compute-domain-controller"


@fault()
def roll_plugins(stage: Stage) -> None:
    """A rolling update, one node after another."""
    roll(stage, [roll_plugin])


@fault()
def roll_controllers(stage: Stage) -> None:
    roll(stage, [roll_controller])


@fault()
def roll_driver(stage: Stage) -> None:
    """As `helm upgrade` does: controller and plugins at the same time."""
    roll(stage, [roll_controller, roll_plugin])


def roll(stage: Stage, begin: list[Callable[[Stage], Callable[[], bool]]]) -> None:
    """Returns when everything is updated. With a second fault at the same time pods may have to wait, but not for this."""
    if not stage.alone:
        return wait_for_all([touch(stage) for touch in begin])
    with unnoticed(stage.cluster):
        wait_for_all([touch(stage) for touch in begin])


def wait_for_all(updated: list[Callable[[], bool]]) -> None:
    wait_until(lambda: all(done() for done in updated), "the driver rolled out", 240, 0.5)


def roll_plugin(stage: Stage) -> Callable[[], bool]:
    stage.cluster.patch(DAEMON_SET, PLUGIN_SET, touched(), DRIVER_NAMESPACE)
    return lambda: plugins_rolled_out(stage.cluster, stage.nodes)


def roll_controller(stage: Stage) -> Callable[[], bool]:
    stage.cluster.patch(DEPLOYMENT, CONTROLLER, touched(), DRIVER_NAMESPACE)
    return lambda: not rollout.missing(stage.cluster.get(DEPLOYMENT, CONTROLLER, DRIVER_NAMESPACE))


def touched() -> dict:
    return {"spec": {"template": {"metadata": {"annotations": {"faults/touched": str(time.time())}}}}}


@contextmanager
def unnoticed(cluster: Cluster) -> Iterator[None]:
    """Meanwhile pods start, none of them after a failed Prepare, and no node is ever without a slice that offers something."""
    slices, version = cluster.snapshot(SLICE, fieldSelector=f"spec.driver={DRIVER}")
    failed, started = counts(cluster, FAILED_PREPARE), counts(cluster, "Started")
    yield
    wait_until(lambda: counts(cluster, "Started").keys() - started.keys(), "a pod started meanwhile", 60)
    failures = [text for event, (count, text) in counts(cluster, FAILED_PREPARE).items() if count > failed.get(event, (0, ""))[0]]
    assert not failures, f"a Prepare failed during the update: {failures}"
    gaps = slice_gaps(cluster, slices, version)
    assert not gaps, f"no channel was offered for a time: {gaps}"


def counts(cluster: Cluster, reason: str) -> dict[str, tuple[int, str]]:
    """UID of each event → how often it happened, and what it says."""
    return {e["metadata"]["uid"]: (e.get("count") or 1, f"{e['involvedObject'].get('name')}: {e.get('message')}")
            for e in cluster.list(EVENT, fieldSelector=f"reason={reason}")}


def slice_gaps(cluster: Cluster, slices: list[Object], version: str) -> list[str]:
    """Every change since then, in order, as the API server remembers it: what polling could overlook is seen here."""
    nodes = {node["metadata"]["name"] for node in cluster.list(NODE)}
    known = {s["metadata"]["name"]: s for s in slices}
    selector = f"spec.driver={DRIVER}"
    now = {s["metadata"]["name"]: s["metadata"]["resourceVersion"] for s in cluster.list(SLICE, fieldSelector=selector)}
    gaps = without_offer(nodes, known, "before the update")
    if {name: s["metadata"]["resourceVersion"] for name, s in known.items()} == now:
        return gaps
    for kind, changed in cluster.watch(SLICE, fieldSelector=selector, resourceVersion=version, timeoutSeconds="10"):
        assert kind != "ERROR", f"the history of the slices is lost: {changed}"
        name = changed["metadata"]["name"]
        if kind == "DELETED":
            known.pop(name, None)
        else:
            known[name] = changed
        gaps += without_offer(nodes, known, f"after {kind} {name}")
        if {name: s["metadata"]["resourceVersion"] for name, s in known.items()} == now:
            return gaps
    raise AssertionError(f"the watch did not tell all: {sorted(known)} instead of {sorted(now)}")


def without_offer(nodes: set[str], slices: dict[str, Object], when: str) -> list[str]:
    offering = {s["spec"].get("nodeName") for s in slices.values() if s["spec"].get("devices")}
    return [f"{node} {when}" for node in sorted(nodes - offering)]
