"""Processes are found again, and only the right ones are stopped."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab import processes
from lab.errors import LabError
from lab.processes import PidFile, Process


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "1000"])
    yield child
    child.kill()
    child.wait()


def found(child: subprocess.Popen[bytes]) -> Process:
    process = Process.of(child.pid)
    assert process is not None
    return process


def test_process_of_another_start_time_is_not_signalled(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """The kernel gives a dead process's pid to somebody else some day."""
    reused = replace(found(sleeper), start_ticks=1)
    assert not reused.alive()
    reused.stop()
    reused.kill()
    assert sleeper.poll() is None


def test_kill_if_spares_whom_it_does_not_mean(sleeper: subprocess.Popen[bytes]) -> None:
    process = found(sleeper)
    process.kill_if(lambda: False)
    replace(process, start_ticks=1).kill_if(lambda: True)
    assert process.alive()
    process.kill_if(lambda: True)
    assert sleeper.wait(timeout=10) == -9
    process.kill_if(lambda: True)


def test_process_of_another_boot_of_the_machine_is_void(sleeper: subprocess.Popen[bytes]) -> None:
    assert not replace(found(sleeper), machine_boot="another").alive()


def test_pid_file_finds_the_process_until_it_ends(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    pid_file = PidFile(tmp_path / "sleep.json")
    assert pid_file.process() is None
    pid_file.remember(found(sleeper))
    assert pid_file.process() == found(sleeper)
    found(sleeper).stop()
    assert pid_file.process() is None


def test_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    process = found(sleeper)
    process.kill()
    assert Path(f"/proc/{sleeper.pid}").exists(), "nobody has waited for it yet"
    assert not process.alive()


def test_stop_insists_when_a_process_ignores_the_request(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap '' TERM; echo > {ready}; while :; do sleep 1; done"
    child = subprocess.Popen(["/bin/sh", "-c", script])
    processes.wait_until(ready.exists, component="child", what="start", seconds=10)
    found(child).stop(seconds=0.2)
    assert child.wait() == -9


def test_start_joins_the_cgroup_before_the_program_runs(tmp_path: Path) -> None:
    members, log = tmp_path / "cgroup.procs", tmp_path / "log"
    processes.start(
        "test",
        ["/bin/sh", "-c", f"cat {members}; echo ready; sleep 1000"],
        pid_file=PidFile(tmp_path / "pid.json"),
        log=log,
        cgroup_files=[members],
        environment=os.environ,
        wait_for_line="0",
    ).kill()


def test_program_that_cannot_start_is_named_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        processes.start(
            "test",
            ["/bin/sh", "-c", "echo it is broken >&2; exit 1"],
            pid_file=PidFile(tmp_path / "pid.json"),
            log=tmp_path / "test.log",
            cgroup_files=[],
            environment=os.environ,
            wait_for_line="ready",
        )
    assert str(caught.value).startswith("test: ended before it was ready")
    assert str(caught.value).endswith("it is broken")
