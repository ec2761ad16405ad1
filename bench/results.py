"""Everything one run found out, as it goes into latest.json."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.audit import Tally
from bench.figures import compare, summarize
from bench.samples import Measure, Samples, Shape
from bench.sizes import ImageSize
from bench.usage import Usage

VERSION = 1

CONTROLS = (Shape.PLAIN, Shape.NOOP)


def controls_of(shape: Shape) -> tuple[Shape, ...]:
    """What a series is compared with, where the same measure has it; the second control with the first."""
    return CONTROLS[: CONTROLS.index(shape)] if shape in CONTROLS else CONTROLS


@dataclass
class Results:
    """A part that was not measured stays None or empty, and says so in the report."""

    nodes: int
    samples: Samples
    started: str = ""  # UTC, RFC 3339
    lives: list[Tally] = field(default_factory=list)
    idle: Tally | None = None
    idle_seconds: float = 0.0
    watches: dict[str, list[str]] = field(default_factory=dict)
    usage: list[Usage] = field(default_factory=list)
    image: ImageSize | None = None
    timelines: dict[str, dict[str, float]] = field(default_factory=dict)
    failure: str = ""  # why the run ended early

    def over(self, measure: Measure, shape: Shape, control: Shape) -> float | None:
        """Seconds by which the median exceeds that of the control; None when one of them was not measured."""
        samples, others = self.samples.of(measure, shape), self.samples.of(measure, control)
        return compare(samples, others).median if samples and others else None

    def to_json(self) -> dict[str, Any]:
        series = self.samples.series()
        return {
            "version": VERSION,
            "started": self.started,
            "failure": self.failure,
            "machine": {"cpus": os.cpu_count(), "kernel": platform.release(), "architecture": platform.machine(), "nodes": self.nodes},
            "series": [self._series_json(measure, shape, samples) for (measure, shape), samples in series.items()],
            "steps": self.timelines,
            "lives": [asdict(life) for life in self.lives],
            "idle": {"seconds": self.idle_seconds, "requests": asdict(self.idle)} if self.idle else None,
            "watches": self.watches,
            "processes": [asdict(usage) for usage in self.usage],
            "image": asdict(self.image) if self.image else None,
        }

    def _series_json(self, measure: Measure, shape: Shape, samples: list[float]) -> dict[str, Any]:
        controls = {control: self.samples.of(measure, control) for control in controls_of(shape)}
        return {
            "measure": measure, "shape": shape, "unit": "s", "summary": asdict(summarize(samples)),
            "over": {control: asdict(compare(samples, others)) for control, others in controls.items() if others},
            "samples": [round(sample, 6) for sample in samples],
        }
