"""The emulated hardware of one node, as files below its `/run/mnnvl`.

The lab writes what a machine is born with (GPUs, boot ID) and installs the
emulator's programs; the kernel model (`mnnvl-kernel`) adds what a loaded driver
shows (`/proc/devices`, the capability file, its socket).
"""

from __future__ import annotations

import filecmp
import json
import os
import platform
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.topology import STATES

KERNEL = "mnnvl-kernel"
CLIENT = "mnnvl"
DRIVER_PROGRAMS = ("nvidia-imex", "nvidia-imex-ctl")
DRIVER_LIBRARY = "libnvidia-ml.so.1"

# Majors above 511 can never be registered by the machine's own kernel, yet
# mknod, the device cgroup and stat take them like any other.
FIRST_MAJOR = 512
MAJORS_PER_LAB = 256
LAST_MAJOR = 4095


@dataclass(frozen=True)
class Emulator:
    """A folder with the emulator's build outputs."""

    folder: Path

    def check(self) -> None:
        for name in (KERNEL, CLIENT, *DRIVER_PROGRAMS, DRIVER_LIBRARY):
            if not (self.folder / name).is_file():
                raise LabError(
                    f"{self.folder / name} is missing; build it with `make build`, name the "
                    "folder with --emulator DIR, or go without hardware: --without-emulator",
                    component="emulator",
                )

    def differs_from(self, node: Path) -> bool:
        """Whether a node runs other builds of the emulator's programs."""
        installed = (node / "config" / KERNEL, node / "driver" / "usr" / "bin" / DRIVER_PROGRAMS[0])
        return any(
            not path.exists() or not filecmp.cmp(path, self.folder / path.name, shallow=False)
            for path in installed
        )

    def install(self, node: Path) -> None:
        """Lays out the node's driver root and programs, replacing older ones."""
        programs = node / "driver" / "usr" / "bin"
        libraries = node / "driver" / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
        for name in DRIVER_PROGRAMS:
            _install(self.folder / name, programs / name)
        _install(self.folder / DRIVER_LIBRARY, libraries / DRIVER_LIBRARY)
        _install(self.folder / CLIENT, node / "mnnvl" / "bin" / CLIENT)
        _install(self.folder / KERNEL, node / "config" / KERNEL)


def _install(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.new")
    shutil.copyfile(source, fresh)
    fresh.chmod(0o755)
    # A running program keeps its old file.
    fresh.rename(target)


def write_node_json(folder: Path, hardware: dict[str, Any]) -> None:
    """Replaces the file in one step: readers see the old or the new."""
    _write(folder / "node.json", json.dumps(hardware, indent=2) + "\n")


def read_node_json(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "node.json").read_text())
    return content


def power_on(folder: Path, hardware: dict[str, Any]) -> str:
    """What a power cycle changes: a new boot ID, and no trace of the old boot.

    GPUs that `topology set` has changed stay as they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.iterdir():
        if leftover.name not in ("node.json", "bin"):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    if not (folder / "node.json").exists():
        write_node_json(folder, hardware)
    boot_id = str(uuid.uuid4())
    _write(folder / "boot_id", boot_id + "\n")
    return boot_id


def boot_id(folder: Path) -> str:
    try:
        return (folder / "boot_id").read_text().strip()
    except FileNotFoundError:
        return ""


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    os.chmod(fresh, 0o644)
    fresh.rename(path)


def set_values(hardware: dict[str, Any], assignments: list[str]) -> None:
    """Changes a decoded node.json by `path=value` assignments.

    A path is keys and list indices with dots between; `gpus.state` means all
    GPUs. A value is taken as text where there is text now, else as JSON.
    """
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise LabError(f"{assignment!r} is no PATH=VALUE, such as gpus.0.state=in_progress")
        _set(hardware, path.split("."), text, path)


def _set(target: Any, keys: list[str], text: str, path: str) -> None:
    key, *rest = keys
    if isinstance(target, list):
        if key.isdigit() and int(key) >= len(target):
            raise LabError(f"{path}: there are only {len(target)} entries, counted from 0")
        chosen = [target[int(key)]] if key.isdigit() else target
        for item in chosen:
            _set(item, rest if key.isdigit() else keys, text, path)
    elif not isinstance(target, dict):
        raise LabError(f"{path}: {key!r} is looked for in the plain value {target!r}")
    elif rest:
        _set(_entry(target, key, path), rest, text, path)
    else:
        target[key] = _value(target, key, text, path)


def _entry(target: dict[str, Any], key: str, path: str) -> Any:
    if key not in target:
        raise LabError(f"{path}: there is no {key!r} among {', '.join(target)}")
    return target[key]


def _value(target: dict[str, Any], key: str, text: str, path: str) -> Any:
    """The text as a value of the kind that is there now."""
    old = _entry(target, key, path)
    if key == "state" and text not in STATES:
        raise LabError(f"{path}: {text!r} is unknown; use one of {', '.join(STATES)}")
    if isinstance(old, str):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if type(value) is not type(old):
        raise LabError(f"{path}: {text!r} is not of the kind of {json.dumps(old)}")
    return value
