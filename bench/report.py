"""The tables that a run prints. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from bench.audit import Tally
from bench.figures import compare, summarize
from bench.results import CONTROLS, Results, controls_of
from bench.samples import Measure, Shape
from bench.targets import MB, MS, Verdict, judge
from bench.timeline import FIRST_INSTRUCTION, STEPS

WORDS = {True: "ok", False: "NOT MET", None: "not measured"}
CONTROL_NAMES = {Shape.PLAIN: "control 1", Shape.NOOP: "control 2"}


def text(results: Results) -> str:
    parts = [_latency(results), _steps(results), _requests(results), _processes(results), _sizes(results), _verdicts(judge(results))]
    return "\n\n".join("\n".join(lines).rstrip() for part in parts if (lines := list(part)))


def _latency(results: Results) -> Iterator[str]:
    series = results.samples.series()
    for measure in Measure:
        shapes = [shape for shape in Shape if (measure, shape) in series]
        if not shapes:
            continue
        yield f"{measure}, ms{f' ({results.nodes} nodes)' if 'all' in measure else ''}"
        yield f"  {'':34}{'n':>4}{'median':>8}{'p90':>8}{'max':>8}   over control 1 [95 %], ratio   over control 2 [95 %], ratio"
        for shape in shapes:
            samples = series[measure, shape]
            summary = summarize(samples)
            name = f"{shape} ({CONTROL_NAMES[shape]})" if shape in CONTROL_NAMES else shape
            figures = "".join(f"{value * MS:8.0f}" for value in (summary.median, summary.p90, summary.high))
            yield f"  {name:34}{summary.count:4}{figures}" + "".join(_over(series, measure, shape, control) for control in CONTROLS)
        yield ""


def _over(series: dict[tuple[Measure, Shape], list[float]], measure: Measure, shape: Shape, control: Shape) -> str:
    if control not in controls_of(shape) or (measure, control) not in series:
        return " " * 32
    over = compare(series[measure, shape], series[measure, control])
    bounds = f"[{over.low * MS:+.0f} … {over.high * MS:+.0f}]"
    return f"   {over.median * MS:+6.0f} {bounds:16} ×{over.ratio:4.2f}"


def _steps(results: Results) -> Iterator[str]:
    """Where the time goes: when the API server had answered the request of each step."""
    shapes = [shape for shape in Shape if shape in results.timelines]
    if not shapes:
        return
    yield "Steps of the start of one pod, ms after its creation (medians, from the audit log)"
    yield f"  {'':26}" + "".join(f"{_short(shape):>14}" for shape in shapes)
    for step in (*STEPS, FIRST_INSTRUCTION):
        times = [results.timelines[shape].get(step) for shape in shapes]
        if any(time is not None for time in times):
            yield f"  {step:26}" + "".join(f"{'–' if time is None else f'{time * MS:.0f}':>14}" for time in times)


def _short(shape: Shape) -> str:
    names = {Shape.PLAIN: "no claim", Shape.NOOP: "no-op", Shape.FIRST: "first pod", Shape.FURTHER: "further pod", Shape.COLD: "with domain",
             Shape.EXCLUSIVE: "exclusive"}
    return names.get(shape, shape)


def _requests(results: Results) -> Iterator[str]:
    if results.lives:
        yield f"API requests of one life of a domain with a pod on each of 2 nodes ({len(results.lives)} lives)"
        yield from _tallies(results.lives)
    if results.idle:
        yield f"API requests at rest, {results.idle_seconds:.0f} s: {results.idle.total} of work{_listed(results.idle.by_kind)}"
        yield f"  apart:{_listed(results.idle.apart) or ' none'}"
    for instance, targets in results.watches.items():
        yield f"  {instance} watches {', '.join(targets)}"


def _listed(counts: dict[str, int]) -> str:
    return "".join(f", {count} {kind}" for kind, count in counts.items()).replace(",", "", 1)


def _tallies(lives: list[Tally]) -> Iterator[str]:
    for name in ("total", "writes", "refused"):
        values = [getattr(life, name) for life in lives]
        yield f"  {name:58}{median(values):6.1f} median{max(values):5} max"
    for field, heading in (("by_kind", ""), ("apart", "apart: ")):
        kinds: dict[str, list[int]] = defaultdict(list)
        for life in lives:
            for kind, count in getattr(life, field).items():
                kinds[kind].append(count)
        for kind, counts in sorted(kinds.items()):
            yield f"    {heading + kind:56}{sum(counts) / len(lives):6.1f} a life"


def _processes(results: Results) -> Iterator[str]:
    if not results.usage:
        return
    yield f"Processes {results.idle_seconds:.0f} s after the load (their children not included)"
    yield f"  {'program':32}{'n':>3}{'VmRSS MB max':>14}{'median':>9}{'anonymous':>11}{'threads':>9}{'CPU s max':>11}{'restarts':>10}"
    programs = sorted({usage.program for usage in results.usage})
    for program in programs:
        found = [usage for usage in results.usage if usage.program == program]
        resident = [usage.resident_bytes / MB for usage in found]
        anonymous = median(usage.anonymous_bytes for usage in found) / MB
        yield (f"  {program:32}{len(found):3}{max(resident):14.1f}{median(resident):9.1f}{anonymous:11.1f}"
               f"{max(usage.threads for usage in found):9}{max(usage.cpu_seconds for usage in found):11.1f}"
               f"{sum(usage.restarts for usage in found):10}")


def _sizes(results: Results) -> Iterator[str]:
    if results.image is None:
        return
    yield f"Image of the driver: {results.image.compressed / MB:.1f} MB compressed, {results.image.unpacked / MB:.1f} MB unpacked"
    for program, size in results.image.programs.items():
        yield f"  {program:32}{size / MB:8.2f} MB"


def _verdicts(verdicts: list[Verdict]) -> Iterator[str]:
    yield f"{'Targets':46}{'limit':>12}{'measured':>12}"
    for verdict in verdicts:
        measured = "–" if verdict.measured is None else f"{verdict.measured:.4g} {verdict.unit}".rstrip()
        yield f"  {verdict.name:44}{f'≤ {verdict.limit:g} {verdict.unit}'.rstrip():>12}{measured:>12}  {WORDS[verdict.kept]}"
