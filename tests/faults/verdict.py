"""Is what a member saw right? Decided from its attempts alone, and from what was broken on purpose at that time."""

from __future__ import annotations

import math
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

# Exit codes of `mnnvl`: the daemons are not connected; an import that was held is lost.
UNREACHABLE, LOST = 19, 20
_TEXT = re.compile(r"memory of ([\w.-]+)/([\w.-]+)")
# /proc/uptime has two decimals.
_RESOLUTION = 0.02


def now() -> float:
    """The clock of the attempts."""
    return float(Path("/proc/uptime").read_text().split()[0])


@dataclass(frozen=True)
class Place:
    """A member: of which ComputeDomain (one name for each incarnation), on which node."""

    domain: str
    node: str

    def __str__(self) -> str:
        return f"{self.domain} on {self.node}"


@dataclass(frozen=True)
class Attempt:
    """One use of fabric memory: `import`, `hold` (an import and its end) or `export`."""

    kind: str
    begin: float
    end: float
    exported: float  # when the handle was made
    member: Place
    exporter: Place
    handle: str
    code: int
    text: str

    def __str__(self) -> str:
        return (f"{self.kind} by {self.member} of {self.exporter} (handle {self.handle} of {self.exported:.2f}) at {self.begin:.2f} … {self.end:.2f}: "
                f"code {self.code}, {self.text or 'no output'}")


def parse(line: str, member: Place) -> Attempt:
    kind, begin, end, exported, domain, node, handle, code, text = (*line.split(" ", 8), "")[:9]
    return Attempt(kind, float(begin), float(end), float(exported), member, Place(domain, node), handle, int(code), text)


@dataclass
class Disturbance:
    """A time in which imports may fail: those from or to these nodes, and those of these domains."""

    what: str
    begin: float
    nodes: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    end: float = math.inf

    def excuses(self, attempt: Attempt) -> bool:
        # A held import lasts long; what counts is when it ended.
        begin = attempt.end if attempt.kind == "hold" else attempt.begin
        if not self._covers(begin, attempt.end):
            # Memory that was exported on the node before it was well again may be as sick as the node was, or gone with it.
            later = begin > self.end and attempt.exported <= self.end + _RESOLUTION
            return later and attempt.code != LOST and attempt.exporter.node in self.nodes
        if {attempt.member.domain, attempt.exporter.domain} & self.domains or {attempt.member.node, attempt.exporter.node} & self.nodes:
            return True
        # When a node returns with another address the daemons of the others make all their links anew. What is held stays held; to
        # begin is what may fail, and a hold begins with an import.
        return bool(self.nodes) and attempt.kind != "export" and attempt.code == UNREACHABLE

    def _covers(self, begin: float, end: float) -> bool:
        return end + _RESOLUTION >= self.begin and begin <= self.end + _RESOLUTION


@dataclass
class Disturbances:
    """All of a run. Any thread may add one; `end` closes it."""

    _all: list[Disturbance] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, what: str, nodes: frozenset[str] = frozenset(), domains: frozenset[str] = frozenset()) -> Disturbance:
        disturbance = Disturbance(what, now(), nodes, domains)
        with self._lock:
            self._all.append(disturbance)
        return disturbance

    def excuse(self, attempt: Attempt) -> bool:
        with self._lock:
            return any(disturbance.excuses(attempt) for disturbance in self._all)


def judge(attempt: Attempt, disturbances: Disturbances) -> str:
    """What is wrong with it; empty when nothing is. No disturbance excuses a breach."""
    memory = _TEXT.search(attempt.text)
    if memory and memory[1] != attempt.member.domain:
        return f"isolation breach: {attempt}"
    if attempt.exporter.domain != attempt.member.domain:
        # A node that was rebooted counts its handles anew: a dead one may name memory of the member's own domain by now.
        return f"isolation breach: {attempt}" if attempt.code == 0 and memory is None else ""
    if disturbances.excuse(attempt):
        return ""
    if attempt.kind == "import" and attempt.code == 0:
        right = memory is not None and memory[2] == attempt.exporter.node
        return "" if right else f"wrong memory: {attempt}"
    # A held import ends by itself only when it is lost.
    return f"broken: {attempt}"
