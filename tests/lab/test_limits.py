"""What the machine cannot carry is said before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import LabError
from lab.limits import check_inotify


def process(proc: Path, pid: int, inotify: int) -> None:
    folder = proc / str(pid) / "fd"
    folder.mkdir(parents=True)
    (folder / "0").symlink_to("/dev/null")
    for number in range(inotify):
        (folder / str(number + 1)).symlink_to("anon_inode:inotify")


@pytest.fixture
def limit(tmp_path: Path) -> Path:
    file = tmp_path / "max_user_instances"
    file.write_text("128\n")
    return file


def test_lab_that_exceeds_the_inotify_limit_is_refused_with_the_remedy(tmp_path: Path, limit: Path) -> None:
    proc = tmp_path / "proc"
    process(proc, 7, inotify=50)
    with pytest.raises(LabError, match=r"other processes have 50, .* 128 .*sysctl -w fs\.inotify\.max_user_instances="):
        check_inotify(6, own=[], proc=proc, limit_file=limit)


def test_a_labs_own_processes_are_not_counted_twice(tmp_path: Path, limit: Path) -> None:
    proc = tmp_path / "proc"
    process(proc, 7, inotify=50)
    check_inotify(6, own=[7], proc=proc, limit_file=limit)


def test_lab_of_six_nodes_fits_an_idle_machine(tmp_path: Path, limit: Path) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    check_inotify(6, own=[], proc=proc, limit_file=limit)
