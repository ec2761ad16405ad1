"""What one life of a ComputeDomain costs the API server, and what the driver asks for when nothing happens."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.audit import AuditLog, Tally, tally
from bench.domains import Domains, template_of
from bench.errors import BenchError
from bench.pods import Pods

# The controller writes status every 2 s at most: after this long without a request the life is over.
QUIET_SECONDS = 4.0
QUIET_LIMIT = 60.0


@dataclass(frozen=True)
class Lives:
    """Counts the driver's requests while a ComputeDomain comes, runs a pod on each of two nodes, and goes."""

    pods: Pods
    domains: Domains
    log: AuditLog
    driver_namespace: str

    def live(self, number: int, nodes: list[str]) -> Tally:
        self.wait_quiet()
        position = self.log.position()
        domain = f"life-{number}"
        self.domains.create(domain)
        self.domains.wait_accepted(domain)
        names = [f"life-{number}-{node}" for node in nodes]
        for name, node in zip(names, nodes, strict=True):
            self.pods.create(name, node, template_of(domain))
        for name in names:
            self.pods.stamp(name)
        self.domains.wait_ready(domain, nodes)
        self.pods.remove(names)
        self.domains.remove(domain)
        self.wait_quiet()
        return self.since(position)

    def since(self, position: int) -> Tally:
        return tally(self.log.since(position), self.driver_namespace)

    def wait_quiet(self) -> None:
        """Returns when the driver has had nothing to say for a while: what it still writes after a life belongs to that life."""
        deadline = time.monotonic() + QUIET_LIMIT
        while True:
            position = self.log.position()
            time.sleep(QUIET_SECONDS)
            seen = self.since(position)
            if seen.total == 0:
                return
            if time.monotonic() > deadline:
                raise BenchError(f"the driver does not come to rest: within {QUIET_SECONDS:.0f} s it still asked for {seen.by_kind}")
