"""A long-running program of the lab, in one place: its files and its state."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab import processes
from lab.errors import LabError
from lab.namespaces import Namespaces
from lab.processes import PidFile, Process

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Component:
    """One program, run in given namespaces and given cgroup."""

    name: str
    command: Sequence[str]
    folder: Path
    cgroup: Path
    namespaces: Namespaces | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    ready_line: str = ""

    @property
    def log(self) -> Path:
        return self.folder / "log" / f"{self.name}.log"

    @property
    def pid_file(self) -> PidFile:
        return PidFile(self.folder / "pid" / f"{self.name}.json")

    def process(self) -> Process | None:
        return self.pid_file.process()

    def ensure(self) -> tuple[Process, bool]:
        """Starts the program unless it runs; says whether it was started."""
        running = self.process()
        if running is not None:
            return running, False
        enter = self.namespaces.enter() if self.namespaces else []
        started = processes.start(
            self.name,
            [*enter, *self.command],
            pid_file=self.pid_file,
            log=self.log,
            cgroup_files=[self.cgroup],
            environment={"PATH": PATH, "HOME": os.environ.get("HOME", "/root"), **self.environment},
            wait_for_line=self.ready_line,
        )
        return started, True

    def check_runs(self, of: str = "") -> None:
        if self.process() is None:
            name = f"{self.name} of {of}" if of else self.name
            raise LabError("ended", component=name, log=self.log)

    def stop(self) -> None:
        process = self.process()
        if process is not None:
            process.stop()
        self.pid_file.forget()
