import pytest

from bench.audit import parse_all
from bench.samples import Measure, Sample, Shape
from bench.timeline import FIRST_INSTRUCTION, steps_of, timelines
from tests.bench.events import CONTROLLER, PLUGIN, event

START = 1_800_000_000.0


def sample(shape: Shape = Shape.FIRST, began: float = START, seconds: float = 0.5) -> Sample:
    return Sample(Measure.START, shape, seconds, "node-1", int(began * 1e9))


def one_start(began: float = START) -> list[str]:
    return [
        event("system:admin", "create", "pods", received=began + 0.001, took=0.004),
        event("system:serviceaccount:kube-system:resource-claim-controller", "create", "resourceclaims", received=began + 0.010, took=0.005),
        event("system:kube-scheduler", "patch", "resourceclaims", subresource="status", received=began + 0.03, took=0.01),
        event("system:kube-scheduler", "create", "pods", subresource="binding", received=began + 0.045, took=0.005),
        event(CONTROLLER, "update", "imexdomains", received=began + 0.05, took=0.01),
        event("system:node:node-1", "get", "resourceclaims", received=began + 0.06, took=0.01),
        event(PLUGIN, "patch", "imexnodes", subresource="status", received=began + 0.08, took=0.02),
        event(PLUGIN, "get", "imexdomains", received=began + 0.11, took=0.01),
    ]


def test_each_step_ends_with_the_answer_to_its_first_request():
    requests = parse_all(one_start() + [event(PLUGIN, "get", "imexdomains", received=START + 0.3)])
    steps = steps_of(sample(), requests)
    assert steps == pytest.approx({
        "pod created": 0.005, "claim created": 0.015, "claim allocated": 0.04, "pod bound": 0.05, "channel leased": 0.06,
        "kubelet reads claim": 0.07, "channel announced": 0.10, "lease checked": 0.12, FIRST_INSTRUCTION: 0.5,
    }, abs=1e-5)


def test_requests_outside_the_sample_are_not_its_steps():
    requests = parse_all(one_start(START - 10) + one_start(START + 10))
    assert steps_of(sample(), requests) == {FIRST_INSTRUCTION: 0.5}


def test_a_step_that_few_samples_have_is_left_out():
    samples = [sample(began=START + offset) for offset in (0, 10, 20)]
    requests = parse_all(one_start() + [event("system:admin", "create", "pods", received=START + 10.01)])
    found = timelines(samples, requests)[Shape.FIRST]
    assert set(found) == {"pod created", FIRST_INSTRUCTION}
