"""What the pages docs/modes.md, isolation.md and gating.md promise for every combination of wishes. Pure: nothing here asks the driver.

Each ComputeDomain gets four pods, each bound to a node: two in one NVLink partition ("home"), then one in the other ("away") and one on a
node without fabric ("bare"). ComputeDomains with isolationMode Channel all use the same four nodes; those with Domain share four others in
turn, for each needs them for itself, and a pod of another ComputeDomain ("other") asks for one of these nodes meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any

PODS = ("home-1", "home-2", "away", "bare")
NODES = {
    "Channel": {"home-1": "a-1", "home-2": "a-2", "away": "b-1", "bare": "bare-1"},
    "Domain": {"home-1": "b-2", "home-2": "b-3", "away": "a-3", "bare": "bare-2"},
}
OTHER = "other"  # of OTHER_DOMAIN, on the node of home-1 of an exclusive ComputeDomain
OTHER_DOMAIN = "channel-any-required-free"

# What a pod may be found in. One that runs with a channel is in "<partition>/shared" or "<partition>/own": whose channel, in which domain.
ABSENT = "–"
NO_CHANNEL = "no channel"
HELD = "held"
REFUSED = "OtherPartition"
UNSCHEDULABLE = "unschedulable"

LEGEND = f"""a/shared: runs with one channel, that of the ComputeDomain in partition a, in the IMEX domain all share; b/own: in one of its own
{NO_CHANNEL}: runs without, and both its environment and an event say so     {HELD}: by gating, and an event says so
{REFUSED}: refused, and an event names both partitions                {UNSCHEDULABLE}: Pending, no node has what its claim asks for
other: a pod of another ComputeDomain that asks for the node of home-1       memory: who can import what home-1 exports
partitions and nodes: ready/all; nodes also counts those without fabric      Ready, Formed: the reason of that condition"""


class Stage(StrEnum):
    """What there is of a ComputeDomain's pods; each stage goes on from the one before."""

    FIRST = "first pod"
    ALL = "all pods"
    CORRECTED = "without the refused"  # only where one was


Row = Mapping[str, str]  # column → cell


@dataclass(frozen=True)
class Combination:
    """The wishes of one ComputeDomain."""

    isolation: str
    partition: str
    fabric: str
    gated: bool

    @property
    def name(self) -> str:
        return "-".join((self.isolation, self.partition, self.fabric, "gated" if self.gated else "free")).lower()

    @property
    def exclusive(self) -> bool:
        return self.isolation == "Domain"

    @property
    def nodes(self) -> dict[str, str]:
        return NODES[self.isolation]

    @property
    def may_run(self) -> set[str]:
        return {"home-1", "home-2"} | ({"away"} if self.partition == "Any" else set()) | ({"bare"} if self.fabric == "Optional" else set())

    @property
    def spec(self) -> dict[str, Any]:
        gating = {"gating": {"minNodes": len(self.may_run), "settleSeconds": 1}} if self.gated else {}
        return {"isolationMode": self.isolation, "partitionPolicy": self.partition, "fabricPolicy": self.fabric, **gating}

    @property
    def stages(self) -> list[Stage]:
        return [Stage.FIRST, Stage.ALL] + ([Stage.CORRECTED] if self.partition == "Single" else [])


def combinations() -> list[Combination]:
    return [Combination(*wishes) for wishes in product(("Channel", "Domain"), ("Any", "Single"), ("Required", "Optional"), (False, True))]


def partition_of(node: str) -> str:
    """By the names of topology.yaml; empty: none."""
    return "" if node.startswith("bare") else node.partition("-")[0]


def pods_at(combination: Combination, stage: Stage) -> set[str]:
    if stage is Stage.FIRST:
        return {"home-1"}
    return set(PODS) - ({"away"} if stage is Stage.CORRECTED else set())


def expected(combination: Combination, stage: Stage) -> Row:
    """How the ComputeDomain and its pods look once nothing moves any more."""
    pods = pods_at(combination, stage)
    # fabricPolicy Required is a matter of the scheduler: such a pod has no node, so it is nobody's member.
    scheduled = pods - ({"bare"} if combination.fabric == "Required" else set())
    # partitionPolicy Single is not, so the pod counts as one, which is never ready and keeps the others from forming.
    refused = scheduled - combination.may_run
    missing = len(scheduled) < len(combination.may_run)
    held = combination.gated and (missing or bool(refused))
    served = scheduled - refused
    return {
        **{pod: _pod(combination, pod, pods, refused, held) for pod in PODS},
        OTHER: UNSCHEDULABLE if combination.exclusive else ABSENT,
        "memory": _memory(served, held),
        "partitions": _partitions(combination, served),
        "nodes": f"{len(served)}/{len(scheduled)}, {len(served & {'bare'})} bare",
        "Ready": "NodesNotReady" if refused else "SomeNodesWithoutFabric" if "bare" in served else "AllNodesReady",
        "Formed": _formed(combination, missing, bool(refused)),
    }


def _pod(combination: Combination, pod: str, pods: set[str], refused: set[str], held: bool) -> str:
    if pod not in pods:
        return ABSENT
    if pod == "bare" and combination.fabric == "Required":
        return UNSCHEDULABLE
    if pod in refused:
        return REFUSED
    if held:
        return HELD
    if pod == "bare":
        return NO_CHANNEL
    return f"{partition_of(combination.nodes[pod])}/{'own' if combination.exclusive else 'shared'}"


def _memory(served: set[str], held: bool) -> str:
    """Who can import what home-1 exports: a partition is as far as memory reaches."""
    if held:
        return ABSENT
    return ", ".join(f"{pod} {'yes' if pod.startswith('home') else 'no'}" for pod in PODS[1:] if pod in served) or ABSENT


def _partitions(combination: Combination, served: set[str]) -> str:
    """In each partition with a node of it a channel, and so many nodes ready of so many. Held pods wait on nodes that are ready."""
    found = sorted(partition_of(combination.nodes[pod]) for pod in served - {"bare"})
    return ", ".join(f"{name} {found.count(name)}/{found.count(name)}" for name in sorted(set(found)))


def _formed(combination: Combination, missing: bool, refused: bool) -> str:
    if not combination.gated:
        return "NotReady" if refused else "AllNodesConnected"
    return "NodesMissing" if missing else "NodesNotReady" if refused else "Formed"
