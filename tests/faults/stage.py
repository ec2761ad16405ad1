"""What a fault gets to work on, and the register of faults."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Fault:
    """Breaks something and returns when it is no longer being broken. Imports may fail only of what it `disturbs`."""

    strike: Callable[[Stage], None]
    disturbs: str  # nothing | node | domain
    tells: str

    def nodes(self, stage: Stage) -> frozenset[str]:
        return frozenset({stage.node}) if self.disturbs == "node" else frozenset()

    def domains(self, stage: Stage) -> frozenset[str]:
        return frozenset({stage.domain.name}) if self.disturbs == "domain" else frozenset()


FAULTS: dict[str, Fault] = {}


def fault(disturbs: str = "nothing") -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Registers a function under its own name."""

    def register(strike: Callable[[Stage], None]) -> Callable[[Stage], None]:
        FAULTS[strike.__name__.replace("_", "-")] = Fault(strike, disturbs, strike.__doc__ or "")
        return strike

    return register
