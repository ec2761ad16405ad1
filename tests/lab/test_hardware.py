"""A node's hardware files: power cycles and changes at run time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab import hardware, topology
from lab.errors import LabError


@pytest.fixture
def content() -> dict[str, Any]:
    return topology.default_node("node-1").to_json()


def test_one_gpu_can_be_changed(content: dict[str, Any]) -> None:
    hardware.set_values(content, ["gpus.2.cliqueId=5"])
    assert [gpu["cliqueId"] for gpu in content["gpus"]] == [1, 1, 5, 1]


def test_all_gpus_can_be_changed_at_once(content: dict[str, Any]) -> None:
    hardware.set_values(content, ["gpus.state=in_progress", "gpus.healthMask=3"])
    assert {(gpu["state"], gpu["healthMask"]) for gpu in content["gpus"]} == {("in_progress", 3)}


def test_text_stays_text_even_if_it_looks_like_a_number(content: dict[str, Any]) -> None:
    hardware.set_values(content, ["driverVersion=590.10"])
    assert content["driverVersion"] == "590.10"


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("gpus", "is no PATH=VALUE"),
        ("gpus.4.state=completed", "there are only 4 entries"),
        ("gpus.colour=red", "there is no 'colour'"),
        ("fabric.state=completed", "there is no 'fabric'"),
        ("gpus.state=done", "'done' is unknown; use one of completed"),
        ("gpus.cliqueId=one", "is not of the kind of 1"),
        ("node.name=x", "'name' is looked for in the plain value 'node-1'"),
    ],
)
def test_bad_change_is_refused(content: dict[str, Any], assignment: str, says: str) -> None:
    with pytest.raises(LabError) as caught:
        hardware.set_values(content, [assignment])
    assert says in str(caught.value)


def test_power_cycle_gives_a_boot_id_and_wipes_the_old_boot(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    first = hardware.power_on(tmp_path, content)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "devices").write_text("old")
    (tmp_path / "kernel.sock").write_text("")
    second = hardware.power_on(tmp_path, content)
    assert first != second
    assert hardware.boot_id(tmp_path) == second
    assert sorted(path.name for path in tmp_path.iterdir()) == ["boot_id", "node.json"]


def test_power_cycle_keeps_changed_hardware(tmp_path: Path, content: dict[str, Any]) -> None:
    hardware.power_on(tmp_path, content)
    changed = hardware.read_node_json(tmp_path)
    hardware.set_values(changed, ["gpus.state=not_supported"])
    hardware.write_node_json(tmp_path, changed)
    hardware.power_on(tmp_path, content)
    assert hardware.read_node_json(tmp_path) == changed


def test_missing_emulator_is_refused_with_the_remedies(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"mnnvl-kernel is missing.*make build.*--without-emulator"):
        hardware.Emulator(tmp_path).check()
