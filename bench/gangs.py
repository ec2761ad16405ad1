"""Formations: how soon after a gang is complete and has settled do all of its containers run?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from bench.domains import Domains, template_of
from bench.errors import BenchError
from bench.observed import Observed
from bench.pods import Pods
from bench.samples import GANGS, Measure, Sample, Samples, Shape
from lab.client import CLAIM, EVENT, Object

SIZE = 4  # nodes of a gang
SETTLE_SECONDS = 1


def claims_in_use(claims: Mapping[str, Object], pods: list[str]) -> bool:
    """Whether each pod has a claim that is allocated and reserved for it: with that it is scheduled."""
    users = {user["name"] for claim in claims.values() for user in claim.get("status", {}).get("reservedFor", [])}
    return users.issuperset(pods)


def were_held(events: Mapping[str, Object], pods: list[str]) -> bool:
    """Whether the first wait of each pod has ended without its being let go."""
    told = {event["involvedObject"]["name"] for event in events.values() if "held until it has formed" in event["message"]}
    return told.issuperset(pods)


@dataclass
class Gangs:
    """Forms gangs of one pod a node in a gated ComputeDomain."""

    pods: Pods
    domains: Domains
    nodes: list[str]  # of the lab; the first SIZE are used
    namespace: str

    def __post_init__(self) -> None:
        self.nodes = self.nodes[:SIZE]
        self._claims = Observed(CLAIM, self.namespace)
        self._events = Observed(EVENT, self.namespace)

    def form(self, number: int, samples: Samples, rest: float) -> str:
        """The gang of round `number` (from 0), after `rest` seconds of quiet."""
        shape = GANGS[number % len(GANGS)]  # each in turn
        domain = f"gang-{number}"
        gating = {"minNodes": len(self.nodes), "settleSeconds": SETTLE_SECONDS}
        self.domains.create(domain, isolationMode="Domain" if shape is Shape.EXCLUSIVE_GANG else "Channel", gating=gating)
        self.domains.wait_accepted(domain)
        names = [f"{domain}-{node}" for node in self.nodes]
        time.sleep(rest)
        complete = self._complete(shape, domain, names)
        stamps = [self.pods.stamp(name) for name in names]
        if min(stamps) < complete:
            raise BenchError(f"{domain}: a pod began {(complete - min(stamps)) / 1e9:.3f} s before the gang was complete")
        took = samples.add(Sample(Measure.GANG_START, shape, (max(stamps) - complete) / 1e9 - SETTLE_SECONDS, ",".join(self.nodes)))
        self.pods.remove(names)
        self.domains.remove(domain)
        self.domains.wait_at_rest(self.nodes)
        return f"{shape} {took:.3f}"

    def _complete(self, shape: Shape, domain: str, names: list[str]) -> int:
        """Creates the pods; the wall clock in ns when the last is scheduled and all nodes are connected with each other."""
        late = names[-1:] if shape is Shape.LATE_GANG else []
        self._create(domain, names[: len(names) - len(late)])
        if late:
            self._events.wait(lambda seen: were_held(seen, names[:-1]), f"the first wait of the pods of {domain} over")
            self._create(domain, late)
        scheduled = self._claims.wait(lambda seen: claims_in_use(seen, names), f"the pods of {domain} scheduled")
        if shape is not Shape.EXCLUSIVE_GANG:
            return scheduled  # the nodes of the shared domain were connected before
        return max(scheduled, self.domains.wait_connected_in(self.domains.uid(domain), self.nodes))

    def _create(self, domain: str, names: list[str]) -> None:
        for name in names:
            self.pods.create(name, name.removeprefix(f"{domain}-"), template_of(domain))
