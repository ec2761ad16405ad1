import json

import pytest

from bench import report
from bench.audit import Tally
from bench.results import Results
from bench.samples import Measure, Sample, Samples, Shape
from bench.sizes import ImageSize
from bench.targets import judge
from bench.usage import Usage


def results(first_ms: float = 90) -> Results:
    """A full run in which the controls took 400 and 500 ms, and a first pod `first_ms` more than control 2."""
    samples = Samples()
    medians = {Shape.PLAIN: 400, Shape.NOOP: 500, Shape.FIRST: 500 + first_ms, Shape.FURTHER: 520, Shape.COLD: 700}
    for shape, milliseconds in medians.items():
        for noise in (-1, 0, 1):
            samples.add(Sample(Measure.START, shape, (milliseconds + noise) / 1000))
    for shape, milliseconds in {Shape.PLAIN: 900, Shape.NOOP: 1000, Shape.DOMAIN: 1250}.items():
        samples.add(Sample(Measure.ALL_START, shape, milliseconds / 1000))
    for shape, milliseconds in {Shape.PLAIN: 800, Shape.GANG: 1300, Shape.LATE_GANG: 1400, Shape.EXCLUSIVE_GANG: 1600}.items():
        samples.add(Sample(Measure.GANG_START, shape, milliseconds / 1000))
    process = Usage("compute-domain-controller", "controller-x", "node-1", 12_000_000, 3_000_000, 3, 1.5, 100.0, 0)
    return Results(
        nodes=6, samples=samples, lives=[Tally(20, 12, 0, {"controller patch imexdomains 200": 2}, {"controller watch": 1})],
        idle=Tally(0, 0, 0, {}, {}), idle_seconds=60, watches={"kubelet-plugin on node-1": ["a", "b", "c"]}, usage=[process],
        image=ImageSize(20_000_000, 55_000_000, {"compute-domain-controller": 4_000_000}))


def verdict(found: Results, name: str):
    return next(v for v in judge(found) if v.name.startswith(name))


@pytest.mark.parametrize(("first_ms", "kept"), [(90, True), (110, False)])
def test_a_target_is_judged_by_the_difference_to_its_control(first_ms, kept):
    found = verdict(results(first_ms), "first pod over no-op claim")
    assert found.measured == pytest.approx(first_ms)
    assert found.kept is kept


def test_gangs_are_judged_together_however_they_came_about():
    found = results()
    assert verdict(found, "gang once settled").measured == pytest.approx(600)
    found.samples.taken += [Sample(Measure.GANG_START, Shape.LATE_GANG, 1.7)] * 2
    assert verdict(found, "gang once settled").kept is False


def test_the_worst_life_counts():
    found = results()
    found.lives.append(Tally(25, 12, 1, {}, {}))
    assert verdict(found, "API requests of a life").kept is False
    assert verdict(found, "… of them writes").kept is True
    assert verdict(found, "… of them refused").kept is False


def test_what_was_not_measured_is_neither_kept_nor_missed():
    empty = Results(nodes=2, samples=Samples())
    assert all(v.measured is None and v.kept is None for v in judge(empty))
    assert report.text(empty).count("not measured") == len(judge(empty))


def test_a_daemon_that_was_not_seen_is_not_within_its_limit():
    assert verdict(results(), "VmRSS daemon").kept is None


def test_the_report_shows_medians_differences_and_verdicts():
    text = report.text(results(first_ms=110))
    line = next(line for line in text.splitlines() if line.strip().startswith(Shape.FIRST))
    assert line.removeprefix(f"  {Shape.FIRST}").split()[:3] == ["3", "610", "611"]
    assert "+210" in line and "+110" in line and "×1.22" in line
    assert "NOT MET" in next(line for line in text.splitlines() if "first pod over no-op claim" in line)


def test_the_json_holds_every_sample():
    content = json.loads(json.dumps(results().to_json()))
    series = {(entry["measure"], entry["shape"]): entry for entry in content["series"]}
    assert series["start of one pod", "no claim"]["samples"] == [0.399, 0.4, 0.401]
    assert series["start of one pod", "no claim"]["over"] == {}
    assert set(series["start of one pod", "further pod"]["over"]) == {"no claim", "no-op driver's claim"}
    assert content["lives"][0]["by_kind"] == {"controller patch imexdomains 200": 2}
