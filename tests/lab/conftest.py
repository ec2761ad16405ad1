"""A running lab for the tests that want one. Minutes when its programs are not built yet."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.lab import machine


@pytest.fixture(scope="module")
def before() -> dict[str, set[str]]:
    """The machine without the lab."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    machine.lab("down")  # of a run that was killed
    return machine.traces()


@pytest.fixture(scope="module")
def running(before: dict[str, set[str]]) -> Iterator[None]:
    """A lab of two nodes; with hardware where the emulator is built."""
    machine.lab("up", "--nodes", "2", *machine.emulator_options())
    yield
    machine.lab("down")


@pytest.fixture(scope="module")
def emulated(running: None) -> None:
    if not machine.EMULATOR.is_dir():
        pytest.skip("no emulator is built: `make build` makes it, EMULATOR_DIR names another")


@pytest.fixture
def no_pods(running: None) -> Iterator[None]:
    yield
    machine.kubectl("delete", "pods", "--all", "--wait=true")
