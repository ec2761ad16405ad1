"""What a fault gets to work on, and the register of faults."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from lab.client import Cluster

from .load import Domain, Load


@dataclass(frozen=True)
class Stage:
    """One fault's surroundings: a node and a domain are drawn for it, more it draws itself."""

    cluster: Cluster
    nodes: list[str]
    load: Load
    node: str
    domain: Domain
    dice: random.Random
    alone: bool = True  # False: another fault strikes at the same time

    def elsewhere(self) -> Stage:
        """For a second fault at the same time."""
        dice = random.Random(self.dice.random())
        return replace(self, node=dice.choice([node for node in self.nodes if node != self.node]), dice=dice, alone=False)


@dataclass(frozen=True)
class Fault:
    """Breaks something and returns when it is no longer being broken. Imports may fail only of what it `disturbs`."""

    strike: Callable[[Stage], None]
    disturbs: str  # nothing | node | domain
    drawn: bool  # in a random series; else it strikes only where it is named
    sudden: bool  # over in seconds and waits for nothing, so that it can strike in the middle of another one
    tells: str

    def nodes(self, stage: Stage) -> frozenset[str]:
        return frozenset({stage.node}) if self.disturbs == "node" else frozenset()

    def domains(self, stage: Stage) -> frozenset[str]:
        return frozenset({stage.domain.name}) if self.disturbs == "domain" else frozenset()


FAULTS: dict[str, Fault] = {}
TWO_AT_ONCE = 0.25


def fault(disturbs: str = "nothing", *, drawn: bool = True, sudden: bool = False) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Registers a function under its own name."""

    def register(strike: Callable[[Stage], None]) -> Callable[[Stage], None]:
        FAULTS[strike.__name__.replace("_", "-")] = Fault(strike, disturbs, drawn, sudden, strike.__doc__ or "")
        return strike

    return register


def draw(dice: random.Random) -> str:
    """The name of a fault, or of two at once, as `strikes` reads it."""
    first = dice.choice(sorted(name for name, fault in FAULTS.items() if fault.drawn))
    if dice.random() < TWO_AT_ONCE:
        return f"{first}+{dice.choice(sorted(name for name, fault in FAULTS.items() if fault.sudden))}"
    return first


def strikes(name: str, stage: Stage) -> list[tuple[Fault, Stage]]:
    """The faults of that name, each with its stage: of two at once the second is sudden and strikes another node."""
    first, _, second = name.partition("+")
    if not second:
        return [(FAULTS[first], stage)]
    return [(FAULTS[first], replace(stage, alone=False)), (FAULTS[second], stage.elsewhere())]
