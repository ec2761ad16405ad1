"""Where the time of a pod's start goes: the steps that the API server saw between creation and first instruction. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from statistics import median

from bench.audit import NODE_USER, Request
from bench.samples import Measure, Sample

SCHEDULER = "system:kube-scheduler"


def _by_driver(component: str) -> Callable[[Request], bool]:
    return lambda r: r.component == component and r.user.startswith("system:serviceaccount:")


# In the order of a start. A step that a shape does not have stays empty.
STEPS: dict[str, Callable[[Request], bool]] = {
    "pod created": lambda r: r.verb == "create" and r.resource == "pods",
    "domain's claim template": lambda r: _by_driver("controller")(r) and r.verb == "create" and r.resource == "resourceclaimtemplates",
    "claim created": lambda r: r.verb == "create" and r.resource == "resourceclaims",
    "claim allocated": lambda r: r.user == SCHEDULER and r.is_write and r.resource.startswith("resourceclaims"),
    "pod bound": lambda r: r.verb == "create" and r.resource == "pods/binding",
    "channel leased": lambda r: _by_driver("controller")(r) and r.is_write and r.resource == "imexdomains",
    "kubelet reads claim": lambda r: r.user.startswith(NODE_USER) and r.verb == "get" and r.resource == "resourceclaims",
    "plugin reads claim": lambda r: _by_driver("kubelet-plugin")(r) and r.verb == "get" and r.resource == "resourceclaims",
    "channel announced": lambda r: _by_driver("kubelet-plugin")(r) and r.is_write and r.resource.startswith("imexnodes"),
    "lease checked": lambda r: _by_driver("kubelet-plugin")(r) and r.verb == "get" and r.resource == "imexdomains",
}
FIRST_INSTRUCTION = "first instruction"


def steps_of(sample: Sample, requests: Sequence[Request]) -> dict[str, float]:
    """Seconds from the beginning of the sample to the answer to the first request of each step; `requests` in the order received."""
    began = sample.began_ns / 1e9
    end = began + sample.seconds
    position = bisect_left(requests, began, key=lambda request: request.received)
    found: dict[str, float] = {}
    for request in requests[position:]:
        if request.received > end:
            break
        for step, belongs in STEPS.items():
            if step not in found and belongs(request):
                found[step] = request.answered - began
    return found | {FIRST_INSTRUCTION: sample.seconds}


def timelines(samples: Sequence[Sample], requests: Sequence[Request]) -> dict[str, dict[str, float]]:
    """Shape → step → median seconds, for steps that at least half of the samples of that shape have."""
    by_shape: dict[str, list[dict[str, float]]] = {}
    for sample in samples:
        if sample.measure is Measure.START:
            by_shape.setdefault(sample.shape, []).append(steps_of(sample, requests))
    return {shape: _medians(found) for shape, found in by_shape.items()}


def _medians(found: list[dict[str, float]]) -> dict[str, float]:
    times = {step: [steps[step] for steps in found if step in steps] for step in (*STEPS, FIRST_INSTRUCTION)}
    return {step: median(values) for step, values in times.items() if len(values) * 2 >= len(found)}
