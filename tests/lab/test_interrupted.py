"""`up` and `down` that somebody interrupts, or kills: what comes next finds its way, and `down` leaves nothing."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable

import pytest

from lab.identity import CHECKOUT
from lab.processes import Process
from tests.lab.machine import IDENTITY, INSTANCE, emulator_options, lab, traces

INTERRUPT, KILL = signal.SIGINT, signal.SIGKILL


def interrupted(number: signal.Signals, moment: Callable[[str], bool], *arguments: str) -> int:
    """Runs a command and sends it the signal at that line of its progress; its exit code."""
    command = [str(CHECKOUT / "lab" / "lab"), "--instance", INSTANCE, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        assert running.stderr is not None
        seen = [line for line in iter(running.stderr.readline, "") if moment(line) and not running.send_signal(number)]
    assert seen, "it ended before that moment"
    return running.returncode


@pytest.mark.parametrize(
    ("moment", "number"),
    [("state in", INTERRUPT), ("control plane ready", INTERRUPT), ("control plane ready", KILL), ("node-1 is Ready", KILL)],
    ids=["interrupted-at-the-start", "interrupted-before-the-nodes", "killed-before-the-nodes", "killed-between-nodes"])
def test_interrupted_up_is_swept_by_down_and_finished_by_up(before: dict[str, set[str]], moment: str, number: signal.Signals) -> None:
    up = ("up", "--nodes", "2", *emulator_options())
    code = interrupted(number, lambda line: moment in line, *up)
    # The last lines may come when all is done.
    assert code in (-number, 130, 0), code
    lab("down")
    assert traces() == before
    interrupted(number, lambda line: moment in line, *up)
    lab(*up)
    assert lab("kubectl", "get", "nodes", "--no-headers").stdout.count(" Ready ") == 2
    lab("down")
    assert traces() == before


def test_killed_down_is_finished_by_the_next(before: dict[str, set[str]]) -> None:
    lab("up", "--nodes", "1", *emulator_options())
    command = [str(CHECKOUT / "lab" / "lab"), "--instance", INSTANCE, "down"]
    etcd = Process.of(int(next(line.split()[1] for line in lab("status").stdout.splitlines() if line.startswith("etcd"))))
    assert etcd is not None
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        while etcd.alive() and running.poll() is None:
            pass  # it is a matter of milliseconds
        running.kill()
    assert IDENTITY.state.exists() or running.returncode == 0
    lab("down")
    assert traces() == before
