"""Memory, CPU time and threads of the driver's processes, read from /proc of the machine that all of the lab's nodes share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError
from lab.client import Object

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """One process; what its children use is not in it."""

    program: str
    pod: str
    node: str
    resident_bytes: int
    anonymous_bytes: int  # the part of it that belongs to no file
    threads: int
    cpu_seconds: float
    age_seconds: float
    restarts: int  # of its container


def of_pods(pods: list[Object], proc: Path = PROC) -> list[Usage]:
    """All processes in the containers of these pods."""
    owners = {_bare(status["containerID"]): (pod, status["restartCount"])
              for pod in pods for status in pod["status"].get("containerStatuses", []) if status.get("containerID")}
    found = [_usage(process, *owners[container], proc)
             for process in _processes(proc) if (container := _container_of(process, owners)) is not None]
    seen = {usage.pod for usage in found}
    missing = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"] not in seen]
    if missing:
        raise BenchError(f"no process found of the pods {', '.join(missing)}: the bench must run on the machine of the lab, in its PID space")
    return found


def _bare(container_id: str) -> str:
    return container_id.rpartition("/")[2]


def _processes(proc: Path) -> Iterator[Path]:
    return (entry for entry in proc.iterdir() if entry.name.isdigit())


def _container_of(process: Path, containers: dict[str, tuple[Object, int]]) -> str | None:
    """The container whose cgroup the process is in."""
    try:
        lines = (process / "cgroup").read_text().splitlines()
    except OSError:  # it ended meanwhile
        return None
    names = {part for line in lines for part in line.split("/")}
    return next((name for name in names if name in containers), None)


def _usage(process: Path, pod: Object, restarts: int, proc: Path) -> Usage:
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    # The command's name, in brackets, may itself hold blanks and brackets.
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    user, system, started = (int(fields[index]) / TICKS for index in (11, 12, 19))
    uptime = float((proc / "uptime").read_text().split()[0])
    return Usage(
        program=os.path.basename(os.readlink(process / "exe")),
        pod=pod["metadata"]["name"],
        node=pod["spec"]["nodeName"],
        resident_bytes=_kibibytes(status["VmRSS"]),
        anonymous_bytes=_kibibytes(status["RssAnon"]),
        threads=int(status["Threads"]),
        cpu_seconds=user + system,
        age_seconds=uptime - started,
        restarts=restarts,
    )


def _kibibytes(text: str) -> int:
    return int(text.split()[0]) * 1024
