"""What the driver promises, and whether this run kept it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.figures import compare
from bench.results import Results
from bench.samples import GANGS, Measure, Shape

MS = 1000.0
MB = 1e6  # memory and sizes are given in millions of bytes


@dataclass(frozen=True)
class Target:
    name: str
    limit: float
    unit: str
    measure: Callable[[Results], float | None]


@dataclass(frozen=True)
class Verdict:
    name: str
    limit: float
    unit: str
    measured: float | None  # None: this run did not measure it

    @property
    def kept(self) -> bool | None:
        return None if self.measured is None else self.measured <= self.limit


def _over(measure: Measure, shape: Shape, control: Shape) -> Callable[[Results], float | None]:
    def milliseconds(results: Results) -> float | None:
        over = results.over(measure, shape, control)
        return None if over is None else over * MS

    return milliseconds


def _gangs(results: Results) -> float | None:
    """All formations together: how a gang came about makes no difference to what it is promised."""
    taken = [seconds for shape in GANGS for seconds in results.samples.of(Measure.GANG_START, shape)]
    control = results.samples.of(Measure.GANG_START, Shape.PLAIN)
    return compare(taken, control).median * MS if taken and control else None


def _worst_life(field: str) -> Callable[[Results], float | None]:
    return lambda results: max((getattr(life, field) for life in results.lives), default=None)


def _resident(program: str) -> Callable[[Results], float | None]:
    """The largest of all instances."""
    return lambda results: max((usage.resident_bytes / MB for usage in results.usage if usage.program == program), default=None)


def _plugin_watches(results: Results) -> float | None:
    return max((len(targets) for instance, targets in results.watches.items() if instance.startswith("kubelet-plugin")), default=None)


TARGETS = [
    Target("first pod over no-op claim, median", 100, "ms", _over(Measure.START, Shape.FIRST, Shape.NOOP)),
    Target("first pod over no claim, median", 250, "ms", _over(Measure.START, Shape.FIRST, Shape.PLAIN)),
    Target("further pod over no-op claim, median", 30, "ms", _over(Measure.START, Shape.FURTHER, Shape.NOOP)),
    Target("exclusive first pod over no-op claim, median", 2000, "ms", _over(Measure.START, Shape.EXCLUSIVE, Shape.NOOP)),
    Target("all nodes at once over no claim, median", 400, "ms", _over(Measure.ALL_START, Shape.DOMAIN, Shape.PLAIN)),
    Target("gang once settled over no claim, median", 700, "ms", _gangs),
    Target("API requests of a life, worst", 24, "", _worst_life("total")),
    Target("… of them writes, worst", 14, "", _worst_life("writes")),
    Target("… of them refused, worst", 0, "", _worst_life("refused")),
    Target("API requests at rest", 0, "", lambda results: None if results.idle is None else results.idle.total),
    Target("watches of a plugin", 3, "", _plugin_watches),
    Target("VmRSS controller, largest", 20, "MB", _resident("compute-domain-controller")),
    Target("VmRSS plugin, largest", 20, "MB", _resident("compute-domain-kubelet-plugin")),
    Target("VmRSS daemon, largest", 8, "MB", _resident("compute-domain-daemon")),
    Target("image, compressed", 25, "MB", lambda results: results.image and results.image.compressed / MB),
    Target("image, unpacked", 60, "MB", lambda results: results.image and results.image.unpacked / MB),
]


def judge(results: Results) -> list[Verdict]:
    return [Verdict(target.name, target.limit, target.unit, target.measure(results)) for target in TARGETS]
