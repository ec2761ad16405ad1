"""Who asked the API server for what: the server's audit log, read and counted. All but `AuditLog` is pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
SERVICE_ACCOUNT = "system:serviceaccount:"
NODE_USER = "system:node:"
NODE_OF_CALLER = "authentication.kubernetes.io/node-name"


@dataclass(frozen=True)
class Request:
    """One request that was answered, or one watch that began."""

    user: str
    caller_node: str  # where the caller's pod runs, if its token says so
    verb: str
    group: str
    resource: str  # with its subresource: imexnodes/status; or the path of what is no resource
    namespace: str
    name: str
    selector: str
    code: int
    received: float  # seconds since the epoch
    answered: float

    @property
    def component(self) -> str:
        """`controller` or `kubelet-plugin` for the driver's own, else the user's last part."""
        return self.user.rpartition(":")[2].removeprefix("compute-domain-")

    def of_driver(self, namespace: str) -> bool:
        return self.user.startswith(f"{SERVICE_ACCOUNT}{namespace}:")

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES

    @property
    def refused(self) -> bool:
        return self.code >= 400

    @property
    def purpose(self) -> str:
        """`work`, or why the request is counted apart."""
        resource = self.resource.partition("/")[0]
        if self.verb == "watch":
            return "watch"
        if self.group == "coordination.k8s.io" and resource == "leases":
            return "leader lease"
        if resource == "events":
            return "events"
        if resource == "resourceslices":
            return "slices"
        return "work"


def seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def parse(line: str) -> Request | None:
    """One line of the log; None for the end of a watch and other stages that are no request of their own."""
    event = json.loads(line)
    watching = event["verb"] == "watch"
    if event["stage"] != ("ResponseStarted" if watching else "ResponseComplete"):
        # A refused watch has no start.
        if not (watching and event["stage"] == "ResponseComplete" and event.get("responseStatus", {}).get("code", 0) >= 400):
            return None
    target = event.get("objectRef", {})
    subresource = target.get("subresource", "")
    resource = target.get("resource", "") or urlsplit(event["requestURI"]).path
    return Request(
        user=event["user"].get("username", ""),
        caller_node=_first(event["user"].get("extra", {}).get(NODE_OF_CALLER)),
        verb=event["verb"],
        group=target.get("apiGroup", ""),
        resource=f"{resource}/{subresource}" if subresource else resource,
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        selector=_first(parse_qs(urlsplit(event["requestURI"]).query).get("fieldSelector")),
        code=event.get("responseStatus", {}).get("code", 0),
        received=seconds(event["requestReceivedTimestamp"]),
        answered=seconds(event["stageTimestamp"]),
    )


def _first(values: list[str] | None) -> str:
    return values[0] if values else ""


def parse_all(lines: Iterable[str]) -> list[Request]:
    """In the order in which the requests came."""
    requests = [request for line in lines if (request := parse(line)) is not None]
    return sorted(requests, key=lambda request: request.received)


@dataclass(frozen=True)
class Tally:
    """The driver's requests in some time: those that are its work, and those counted apart."""

    total: int
    writes: int
    refused: int
    by_kind: dict[str, int]  # "controller update imexdomains 200" → how often
    apart: dict[str, int]  # "controller watch" → how often


def tally(requests: Iterable[Request], namespace: str) -> Tally:
    """What the components in the driver's `namespace` asked for."""
    ours = [request for request in requests if request.of_driver(namespace)]
    work = [request for request in ours if request.purpose == "work"]
    return Tally(
        total=len(work),
        writes=sum(request.is_write for request in work),
        refused=sum(request.refused for request in work),
        by_kind=_counted(f"{r.component} {r.verb} {r.resource} {r.code}" for r in work),
        apart=_counted(f"{r.component} {r.purpose}" for r in ours if r.purpose != "work"),
    )


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def open_watches(lines: Iterable[str], namespace: str) -> dict[str, list[str]]:
    """What each instance of the driver watches at the end of the log: "kubelet-plugin on node-1" → ["imexnodes metadata.name=node-1", …].

    A server that was killed logs no end of its watches; so several of one instance for the same objects count as one.
    """
    started: dict[str, Request] = {}
    for line in lines:
        if '"watch"' not in line or namespace not in line:
            continue
        event = json.loads(line)
        if event["stage"] == "ResponseStarted" and (request := parse(line)) is not None and request.of_driver(namespace):
            started[event["auditID"]] = request
        else:
            started.pop(event["auditID"], None)
    found: dict[str, set[str]] = {}
    for request in started.values():
        where = f" on {request.caller_node}" if request.caller_node else ""
        target = " ".join(part for part in (request.resource, request.selector or request.name) if part)
        found.setdefault(request.component + where, set()).add(target)
    return {instance: sorted(targets) for instance, targets in sorted(found.items())}


class AuditLog:
    """The log of a running API server, which writes a line before it answers: what was answered can be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.position()  # not later: a bench without audit log is refused at its start

    def position(self) -> int:
        return self._path.stat().st_size

    def since(self, position: int) -> list[Request]:
        return parse_all(self.lines(position))

    def lines(self, position: int = 0) -> list[str]:
        """Everything logged after `position` was taken. ValueError when the log was rotated meanwhile."""
        with self._path.open("rb") as log:
            if log.seek(0, 2) < position:
                raise ValueError(f"{self._path} was rotated during the run")
            log.seek(position)
            content = log.read()
        # The last line may be half written: it belongs to a request that has no answer yet.
        complete, _, _ = content.rpartition(b"\n")
        return [line for line in complete.decode().split("\n") if line]
