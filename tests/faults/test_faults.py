"""Faults, one after another, under load. Which ones: SEED and FAULTS in the environment; by default a fixed short series.

After each fault everything must come to rest by itself: the driver ready, every member of every domain running and importing from every
other one. Meanwhile no import may succeed that must not, and none may fail that has nothing to do with the fault.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pytest

from lab.client import NODE, Cluster, wait_until

from . import cluster_faults, driver_faults, object_faults, rollouts  # noqa: F401  (they register their faults)
from .cluster_state import broken_rules, end_back_offs, healthy, leftovers, revive_control_plane, undisturbed
from .gangs import Gangs
from .load import NO_ANSWER, Load, insist
from .stage import Fault, Stage, draw, strikes

# The short series is always the same one; any other draws its seed unless it is given one.
SEED = int(os.environ.get("SEED") or (random.SystemRandom().randrange(10**6) if os.environ.get("FAULTS") else 1))
SHORT = ["kill-plugin", "kill-imex", "kill-leader", "delete-slices", "reboot-node", "api-outage", "delete-imexnode", "roll-driver",
         "overwrite-checkpoint", "lose-imexdomain", "sick-fabric", "restart-kubelet", "remake-domain", "restart-containerd", "delete-daemon-pod"]
# The kubelet repeats a call that failed only 60 to 90 s later.
LONGEST_REST = 150.0


def series() -> list[str]:
    """Names of the faults to come. FAULTS is their number, or names with commas between; a + joins two that strike at once."""
    wanted = os.environ.get("FAULTS", "")
    if wanted.isdigit():
        dice = random.Random(SEED)
        return [draw(dice) for _ in range(int(wanted))]
    return wanted.split(",") if wanted else SHORT


STEPS = [f"{number:03}-{name}" for number, name in enumerate(series(), start=1)]


@dataclass
class World:
    cluster: Cluster
    nodes: list[str]
    load: Load
    gangs: Gangs

    def stage(self, step: str) -> Stage:
        """Drawn from seed and step alone, so that a series can be repeated."""
        dice = random.Random(f"{SEED}/{step}")
        return Stage(self.cluster, self.nodes, self.load, dice.choice(self.nodes), dice.choice(self.load.domains), dice)


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def strike_all(faults: list[tuple[Fault, Stage]]) -> None:
    """Together; a second fault may find no API server because of the first, and is tried again."""
    (first, stage), *others = faults
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(insist, partial(fault.strike, where), "the second fault struck") for fault, where in others]
        first.strike(stage)
        for other in running:
            other.result()


def patience(cluster: Cluster) -> None:
    """What a control plane's own kubelet, and an operator, do meanwhile."""
    for program in revive_control_plane():
        say(f"    {program} had ended and is started again")
    try:
        for pod in end_back_offs(cluster):
            say(f"    {pod} was in back-off and is replaced")
    except NO_ANSWER:
        pass  # asked again in a moment


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    cluster = Cluster("faults")
    nodes = sorted(node["metadata"]["name"] for node in cluster.list(NODE))
    assert len(nodes) >= 2, f"the lab has too few nodes: {nodes}"
    wait_until(lambda: healthy(cluster, nodes), "the driver ready on every node", 120)
    prefix = f"faults-{os.getpid()}"
    load = Load(cluster, nodes, ["red", "blue", "green"], prefix)
    say(f"\n{len(STEPS)} faults of seed {SEED} on {len(nodes)} nodes")
    with load.evidence:
        gangs = Gangs(load, prefix, SEED)
        try:
            load.start()
            gangs.start()
            load.settle(lambda: healthy(cluster, nodes), LONGEST_REST, lambda: patience(cluster))
            yield World(cluster, nodes, load, gangs)
        finally:
            gangs.stop(at_once=True)
            load.stop()
    slowest = max(gangs.starts, default=(0, "none"))
    say(f"{load.evidence.judged} attempts judged, {load.evidence.refused} of them refused to other domains; {len(gangs.starts)} gangs, "
        f"the slowest start took {slowest[0]:.1f} s ({slowest[1]})")


@pytest.mark.parametrize("step", STEPS)
def test_workloads_are_undisturbed_and_all_comes_to_rest(world: World, step: str) -> None:
    stage = world.stage(step)
    faults = strikes(step.partition("-")[2], stage)
    nodes = frozenset[str]().union(*(fault.nodes(where) for fault, where in faults))
    domains = frozenset[str]().union(*(fault.domains(where) for fault, where in faults))
    before = undisturbed(world.cluster, world.load, nodes, domains)
    say(f"{step} {' '.join(where.node for _, where in faults)} {stage.domain.name}")
    began = time.monotonic()
    with world.load.disturbed(step, nodes, domains):
        strike_all(faults)
        struck = time.monotonic()
        world.load.settle(lambda: healthy(world.cluster, world.nodes), LONGEST_REST, lambda: patience(world.cluster))
    say(f"    took {struck - began:.1f} s, at rest {time.monotonic() - struck:.1f} s later")
    after = undisturbed(world.cluster, world.load, nodes, domains)
    # Of a domain that was made anew meanwhile there is no fact any more.
    changed = {what: (was, after[what]) for what, was in before.items() if after.get(what, was) != was}
    assert not changed, f"disturbed: {changed}"
    assert not broken_rules(world.cluster)


def test_nothing_is_left(world: World) -> None:
    world.gangs.stop()
    world.load.stop()
    world.load.check()
    wait_until(lambda: not leftovers(world.cluster, world.nodes), "nothing of any ComputeDomain is left", 120, 1)
