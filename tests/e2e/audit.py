"""Counts API requests from the API server's audit log."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lab.cluster import Cluster as Lab
from lab.identity import CHECKOUT, Identity

COMPONENTS = ("controller", "kubelet-plugin")
READS = ("get", "list")
# Not part of a ComputeDomain's life: they go on whether or not there is one.
APART = {"leases", "events", "resourceslices"}


def audit_log() -> Path:
    lab = Lab(Identity(CHECKOUT, os.environ.get("COMPUTEDOMAIN_LAB_INSTANCE", "")))
    return lab.control(lab.current()).audit_log


class Recording:
    """Requests of the driver's components from its creation on."""

    def __init__(self) -> None:
        self._log = audit_log()
        self._start = self._log.stat().st_size

    def requests(self) -> list[tuple[str, str, str, int]]:
        """(component, verb, resource, code) of each request that belongs to the ComputeDomain's life."""
        return [r for r in self._all() if r[1] != "watch" and r[2].split("/")[0] not in APART]

    def table(self) -> str:
        rows = Counter(self.requests())
        return "\n".join(f"{count:3} {component:16} {verb:8} {resource:28} {code}" for (component, verb, resource, code), count in sorted(rows.items()))

    def _all(self) -> Iterator[tuple[str, str, str, int]]:
        with self._log.open() as log:
            log.seek(self._start)
            for line in log:
                event = json.loads(line)
                user = event["user"]["username"]
                component = next((c for c in COMPONENTS if user.endswith(f":compute-domain-{c}")), "")
                ref = event.get("objectRef", {})
                if component and ref:
                    resource = "/".join(part for part in (ref.get("resource", ""), ref.get("subresource", "")) if part)
                    yield component, event["verb"], resource, event["responseStatus"]["code"]
