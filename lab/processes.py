"""Long-running programs of the lab: start, find again, stop.

A process is found again by its pid *and* its start time, so a pid that the
kernel has given to somebody else meanwhile is never signalled.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.errors import LabError

STOP_SECONDS = 10.0
POLL_SECONDS = 0.05

# Puts itself into the cgroups named before `--`, then becomes the program: the
# program can have no child outside them, and it keeps the pid we record.
ENTER_CGROUPS = (
    'while [ "$1" != -- ]; do echo 0 >"$1" || exit 125; shift; done; shift; exec "$@"'
)


@dataclass(frozen=True)
class Process:
    """One started program. `start_ticks` is field 22 of /proc/PID/stat."""

    pid: int
    start_ticks: int
    machine_boot: str

    @staticmethod
    def of(pid: int) -> Process | None:
        """The live process with this pid; a zombie is not alive."""
        stat = _stat(pid)
        return None if stat is None else Process(pid, stat, machine_boot_id())

    def alive(self) -> bool:
        return self.machine_boot == machine_boot_id() and _stat(self.pid) == self.start_ticks

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Asks with SIGTERM, insists with SIGKILL; returns when it is gone."""
        if not self._signal(signal.SIGTERM, seconds):
            self.kill()

    def kill(self) -> None:
        if not self._signal(signal.SIGKILL, STOP_SECONDS):
            raise LabError(f"process {self.pid} does not die")

    def kill_if(self, wanted: Callable[[], bool]) -> None:
        """Kills it without a wait. `wanted` is asked while the pid can mean no other process."""
        with self._pinned() as handle:
            if handle is not None and wanted():
                _send(handle, signal.SIGKILL)

    def _signal(self, number: signal.Signals, seconds: float) -> bool:
        with self._pinned() as handle:
            if handle is None or not _send(handle, number):
                return True
            return bool(select.select([handle], [], [], seconds)[0])

    @contextmanager
    def _pinned(self) -> Iterator[int | None]:
        """A handle on this very process; None when it has ended."""
        handle = _open(self.pid)
        try:
            # The handle is on whoever has the pid now: compare before sending.
            yield handle if self.alive() else None
        finally:
            if handle is not None:
                os.close(handle)


def _open(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _send(handle: int, number: signal.Signals) -> bool:
    """Says whether there was still somebody to get it."""
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    return True


def _stat(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name, in brackets, may itself hold blanks and brackets.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def machine_boot_id() -> str:
    """The boot ID of the machine itself: pid files of another boot are void."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class PidFile:
    """Remembers one process across invocations of the lab."""

    def __init__(self, path: Path):
        self.path = path

    def process(self) -> Process | None:
        """The remembered process if it still lives."""
        try:
            process = Process(**json.loads(self.path.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return process if process.alive() else None

    def remember(self, process: Process) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(process)))
        fresh.rename(self.path)

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)


def start(
    name: str,
    command: Sequence[str],
    *,
    pid_file: PidFile,
    log: Path,
    cgroup_files: Sequence[Path],
    environment: Mapping[str, str],
    wait_for_line: str = "",
) -> Process:
    """Starts a program in the background, in the given cgroups.

    With `wait_for_line` its standard output is read until that line came and
    then left alone; otherwise both outputs go to `log`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    joined = ["/bin/sh", "-c", ENTER_CGROUPS, name, *map(str, cgroup_files), "--", *command]
    with log.open("ab") as log_file:
        child = subprocess.Popen(
            joined,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if wait_for_line else log_file,
            stderr=log_file,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
        )
    process = Process.of(child.pid)
    if process is None:
        raise LabError("ended before it was ready", component=name, log=log)
    pid_file.remember(process)
    if wait_for_line:
        assert child.stdout is not None
        with child.stdout:
            if child.stdout.readline().decode().strip() != wait_for_line:
                raise LabError("ended before it was ready", component=name, log=log)
    return process


def wait_until(
    condition: Callable[[], bool],
    *,
    component: str,
    what: str,
    seconds: float,
    log: Path | None = None,
    process: Process | None = None,
) -> None:
    """Polls until `condition` holds; an ended `process` ends the wait early."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process is not None and not process.alive():
            raise LabError(f"ended while the lab waited for {what}", component=component, log=log)
        if time.monotonic() > deadline:
            raise LabError(f"no {what} within {seconds:.0f} s", component=component, log=log)
        time.sleep(POLL_SECONDS)
