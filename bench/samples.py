"""What was measured, sample by sample."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum


class Shape(StrEnum):
    """Which pods; the first two are the controls."""

    PLAIN = "no claim"
    NOOP = "no-op driver's claim"
    FIRST = "first pod of a domain on a node"
    FURTHER = "further pod"
    COLD = "domain and pod created together"
    EXCLUSIVE = "first pod of an exclusive domain"  # isolationMode Domain, on a node of the shared domain
    GANG = "gang, created at once"
    LATE_GANG = "gang, the others' first wait over"
    EXCLUSIVE_GANG = "gang of an exclusive domain"
    DOMAIN = "new domain"  # on all nodes at once, where it stands for FIRST; and its removal


GANGS = (Shape.GANG, Shape.LATE_GANG, Shape.EXCLUSIVE_GANG)


class Measure(StrEnum):
    START = "start of one pod"  # before the request → first instruction of the container
    RESTART = "nvidia-imex restarted into another domain"  # out of the one, the assignment gone → READY in the other
    GONE = "removal of one pod"  # before the request → object gone
    FREED = "removal of a domain"  # before the request → object gone, channel free
    GANG_START = "start of a gang"  # complete and settled → last container's first instruction; the control from before the first request
    ALL_START = "start on all nodes at once"  # before the first request → last container's first instruction
    ALL_READY = "domain of all nodes Ready, all pairs connected"
    ALL_GONE = "removal on all nodes at once"
    ALL_FREED = "removal on all nodes at once, channel free"


@dataclass(frozen=True)
class Sample:
    measure: Measure
    shape: Shape
    seconds: float
    node: str = ""
    began_ns: int = 0  # wall clock, to find the sample in the audit log


@dataclass
class Samples:
    taken: list[Sample] = field(default_factory=list)

    def add(self, sample: Sample) -> float:
        self.taken.append(sample)
        return sample.seconds

    def series(self) -> dict[tuple[Measure, Shape], list[float]]:
        """Seconds by what was measured, in the order of measurement."""
        found: dict[tuple[Measure, Shape], list[float]] = defaultdict(list)
        for sample in self.taken:
            found[sample.measure, sample.shape].append(sample.seconds)
        return dict(found)

    def of(self, measure: Measure, shape: Shape) -> list[float]:
        return self.series().get((measure, shape), [])
