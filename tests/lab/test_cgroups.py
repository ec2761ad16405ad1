"""The lab's cgroups: whatever state a process is in, it can be swept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.cgroups import CgroupTree, hierarchies

FREEZERS = [item for item in hierarchies() if item.version == 1 and "freezer" in item.options]


@pytest.mark.skipif(not FREEZERS, reason="this machine has no v1 freezer; with v2 a frozen process can be killed")
def test_a_frozen_process_is_killed() -> None:
    tree = CgroupTree(f"computedomain-lab-test-{os.getpid()}")
    joins = tree.create("frozen")
    freezer: Path = FREEZERS[0].mount / tree.name / "frozen"
    freezer.mkdir(parents=True)
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        joins.write_text(str(sleeper.pid))
        (freezer / "cgroup.procs").write_text(str(sleeper.pid))
        (freezer / "freezer.state").write_text("FROZEN")
        assert (freezer / "freezer.state").read_text().strip() in ("FROZEN", "FREEZING")
        tree.kill("frozen")
        assert sleeper.wait(timeout=10) == -9
    finally:
        (freezer / "freezer.state").write_text("THAWED")
        sleeper.kill()
        sleeper.wait()
        tree.remove()
