"""Medians and comparisons of samples. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """What a table shows of a series of samples, in their unit."""

    count: int
    median: float
    p90: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """How much larger the median of a series is than that of its control.

    `low` and `high` bound it with 95 % confidence: a difference whose bounds have different signs is noise.
    """

    median: float
    low: float
    high: float
    ratio: float


def quantile(samples: Sequence[float], fraction: float) -> float:
    """Interpolated between the two nearest samples."""
    ordered = sorted(samples)
    position = fraction * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def summarize(samples: Sequence[float]) -> Summary:
    return Summary(len(samples), median(samples), quantile(samples, 0.9), min(samples), max(samples))


def compare(samples: Sequence[float], control: Sequence[float]) -> Difference:
    """Difference of medians with its bootstrap interval; the same samples always give the same answer."""
    rng = random.Random(1)
    resampled = [median(rng.choices(samples, k=len(samples))) - median(rng.choices(control, k=len(control))) for _ in range(RESAMPLES)]
    tail = (1 - CONFIDENCE) / 2
    return Difference(
        median(samples) - median(control), quantile(resampled, tail), quantile(resampled, 1 - tail), median(samples) / median(control))
