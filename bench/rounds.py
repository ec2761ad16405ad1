"""One round measures every shape once, so that all of them see the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench import noop
from bench.domains import Domains, template_of
from bench.gangs import SIZE, Gangs
from bench.pods import Pods
from bench.samples import Measure, Sample, Samples, Shape


@dataclass
class Rounds:
    """Pods are removed before the next ones come: their end must not disturb the others' start. That removal is measured as well."""

    pods: Pods
    domains: Domains | None  # None: only the controls are measured, as with gangs
    gangs: Gangs | None
    nodes: list[str]
    rest: float  # seconds of quiet before each sample
    samples: Samples = field(default_factory=Samples)

    def play(self, number: int) -> str:
        """Measures round `number` (from 0), on the nodes in turn and beginning with another shape each time; returns it in words."""
        node = self.nodes[number % len(self.nodes)]
        parts: list[Callable[[], str]] = [
            lambda: self._one(Shape.PLAIN, node, number),
            lambda: self._one(Shape.NOOP, node, number),
            lambda: self._all(Shape.PLAIN, number),
            lambda: self._all(Shape.NOOP, number),
            lambda: self._gang_without_claims(number),
        ]
        if domains := self.domains:
            parts += [
                lambda: self._domain(domains, node, number),
                lambda: self._cold(domains, node, number),
                lambda: self._exclusive(domains, node, number),
                lambda: self._all_of_domain(domains, number),
            ]
        if gangs := self.gangs:
            parts.append(lambda: gangs.form(number, self.samples, self.rest))
        first = number % len(parts)
        return f"{node}: " + ", ".join(part() for part in parts[first:] + parts[:first])

    def _start(self, measure: Measure, shape: Shape, names: list[str], nodes: list[str], template: str) -> float:
        """Creates the pods and takes the time until the last of them has begun."""
        time.sleep(self.rest)
        began = [self.pods.create(name, node, template) for name, node in zip(names, nodes, strict=True)]
        stamps = [self.pods.stamp(name) for name in names]
        return self.samples.add(Sample(measure, shape, (max(stamps) - began[0]) / 1e9, ",".join(nodes), began[0]))

    def _remove(self, measure: Measure, shape: Shape, names: list[str]) -> None:
        time.sleep(self.rest)
        self.samples.add(Sample(measure, shape, self.pods.remove(names)))

    def _remove_domain(self, domains: Domains, name: str, shape: Shape = Shape.DOMAIN) -> None:
        self.samples.add(Sample(Measure.FREED, shape, domains.remove(name)))

    def _one(self, shape: Shape, node: str, number: int) -> str:
        names = [f"{'noop' if shape is Shape.NOOP else 'plain'}-{number}"]
        took = self._start(Measure.START, shape, names, [node], noop.TEMPLATE if shape is Shape.NOOP else "")
        self._remove(Measure.GONE, shape, names)
        return f"{shape} {took:.3f}"

    def _domain(self, domains: Domains, node: str, number: int) -> str:
        """A new ComputeDomain, accepted but without a lease: its first pod on the node, then another one beside it."""
        domain = f"domain-{number}"
        domains.create(domain)
        domains.wait_accepted(domain)
        names = [f"first-{number}", f"further-{number}"]
        first = self._start(Measure.START, Shape.FIRST, names[:1], [node], template_of(domain))
        further = self._start(Measure.START, Shape.FURTHER, names[1:], [node], template_of(domain))
        self._remove(Measure.GONE, Shape.FURTHER, names[1:])
        self._remove(Measure.GONE, Shape.FIRST, names[:1])
        self._remove_domain(domains, domain)
        return f"first pod {first:.3f}, further pod {further:.3f}"

    def _cold(self, domains: Domains, node: str, number: int) -> str:
        """As one manifest with both would have it: from before the ComputeDomain's creation."""
        domain, pod = f"cold-{number}", f"cold-{number}"
        time.sleep(self.rest)
        began = domains.create(domain)
        self.pods.create(pod, node, template_of(domain))
        took = self.samples.add(Sample(Measure.START, Shape.COLD, (self.pods.stamp(pod) - began) / 1e9, node, began))
        self._remove(Measure.GONE, Shape.COLD, [pod])
        self._remove_domain(domains, domain)
        return f"with its domain {took:.3f}"

    def _exclusive(self, domains: Domains, node: str, number: int) -> str:
        """The first pod of a ComputeDomain that wants the node for itself, on a node of the shared IMEX domain."""
        domain, pod = f"exclusive-{number}", f"exclusive-{number}"
        domains.create(domain, isolationMode="Domain")
        domains.wait_accepted(domain)
        shared = domains.assigned(node)
        time.sleep(self.rest)
        began = self.pods.create(pod, node, template_of(domain))
        out, ready = domains.wait_moved(node, shared)
        took = self.samples.add(Sample(Measure.START, Shape.EXCLUSIVE, (self.pods.stamp(pod) - began) / 1e9, node, began))
        self.samples.add(Sample(Measure.RESTART, Shape.EXCLUSIVE, (ready - out) / 1e9, node))
        self._remove(Measure.GONE, Shape.EXCLUSIVE, [pod])
        self._remove_domain(domains, domain, Shape.EXCLUSIVE)
        domains.wait_at_rest(self.nodes)
        return f"exclusive {took:.3f}"

    def _all(self, shape: Shape, number: int) -> str:
        names = [f"all-{'noop' if shape is Shape.NOOP else 'plain'}-{number}-{node}" for node in self.nodes]
        took = self._start(Measure.ALL_START, shape, names, self.nodes, noop.TEMPLATE if shape is Shape.NOOP else "")
        self._remove(Measure.ALL_GONE, shape, names)
        return f"all nodes {shape} {took:.3f}"

    def _gang_without_claims(self, number: int) -> str:
        nodes = self.nodes[:SIZE]
        names = [f"gang-plain-{number}-{node}" for node in nodes]
        took = self._start(Measure.GANG_START, Shape.PLAIN, names, nodes, "")
        self.pods.remove(names)
        return f"{len(nodes)} nodes {Shape.PLAIN} {took:.3f}"

    def _all_of_domain(self, domains: Domains, number: int) -> str:
        domain = f"all-{number}"
        domains.create(domain)
        domains.wait_accepted(domain)
        names = [f"all-domain-{number}-{node}" for node in self.nodes]
        took = self._start(Measure.ALL_START, Shape.DOMAIN, names, self.nodes, template_of(domain))
        began = self.samples.taken[-1].began_ns
        ready = domains.wait_ready(domain, self.nodes)
        self.samples.add(Sample(Measure.ALL_READY, Shape.DOMAIN, (ready - began) / 1e9))
        self._remove_everything(domains, domain, names)
        return f"all nodes of a domain {took:.3f}"

    def _remove_everything(self, domains: Domains, domain: str, names: list[str]) -> None:
        """Pods and ComputeDomain deleted together, as a deleted namespace would."""
        time.sleep(self.rest)
        uid = domains.uid(domain)
        began = time.time_ns()
        domains.delete(domain)
        gone = self.pods.remove(names)
        self.samples.add(Sample(Measure.ALL_GONE, Shape.DOMAIN, gone))
        freed = domains.wait_freed(domain, uid)
        self.samples.add(Sample(Measure.ALL_FREED, Shape.DOMAIN, (freed - began) / 1e9))
