"""What the lab remembers between two commands: one JSON file and one lock."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.hardware import FIRST_MAJOR, LAST_MAJOR, MAJORS_PER_LAB
from lab.identity import Identity
from lab.network import MAX_NODES
from lab.progress import say
from lab.topology import NodeHardware

VERSION = 1


@dataclass
class NodeState:
    """A node of the lab. `index` gives its addresses and is never changed."""

    name: str
    index: int
    hardware: dict[str, Any]
    channel_major: int = 0
    capability_major: int = 0


@dataclass
class State:
    """Everything that `up` was asked for, and what was handed out since."""

    checkout: str
    instance: str
    majors_from: int
    next_major: int = 0
    complete: bool = False  # an `up` has once come to its end
    programs: str = ""
    feature_gates: str = ""
    emulator: str = ""  # its folder; empty when the nodes have no hardware
    nodes: list[NodeState] = field(default_factory=list)

    def node(self, name: str) -> NodeState:
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes) or "none"
        raise LabError(f"there is no node {name!r}; nodes are: {names}")

    def add_node(self, hardware: NodeHardware) -> NodeState:
        if any(node.name == hardware.name for node in self.nodes):
            raise LabError(f"there is a node {hardware.name!r} already")
        used = {node.index for node in self.nodes}
        free = [index for index in range(1, MAX_NODES + 1) if index not in used]
        if not free:
            raise LabError(f"a lab has at most {MAX_NODES} nodes")
        node = NodeState(hardware.name, free[0], hardware.to_json())
        self.nodes.append(node)
        return node

    def take_majors(self, node: NodeState) -> None:
        """Gives the node two numbers that none has now, and none had lately."""
        used = {other.channel_major for other in self.nodes}
        used |= {other.capability_major for other in self.nodes}
        taken: list[int] = []
        while len(taken) < 2:
            major = self.majors_from + self.next_major % MAJORS_PER_LAB
            self.next_major += 1
            if major not in used:
                taken.append(major)
        node.channel_major, node.capability_major = taken


def _file(identity: Identity) -> Path:
    return identity.state / "lab.json"


def load(identity: Identity) -> State | None:
    """The remembered state; None when there is no lab."""
    try:
        content = json.loads(_file(identity).read_text())
        if content.pop("version") != VERSION:
            raise ValueError
        nodes = [NodeState(**node) for node in content.pop("nodes")]
        return State(**content, nodes=nodes)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise LabError(
            f"{_file(identity)} is damaged or of another version; run `lab down`"
        ) from None


def save(identity: Identity, state: State) -> None:
    fresh = _file(identity).with_suffix(".new")
    fresh.write_text(json.dumps({"version": VERSION} | asdict(state), indent=1))
    fresh.rename(_file(identity))


def fresh(identity: Identity) -> State:
    return State(str(identity.checkout), identity.instance, _free_majors(identity))


def _free_majors(identity: Identity) -> int:
    """A block of majors that no other lab on this machine has.

    Labs share one PID space: a scan for processes with a device must not find
    those of another lab.
    """
    blocks = (LAST_MAJOR + 1 - FIRST_MAJOR) // MAJORS_PER_LAB
    used = set()
    for path in identity.state_root.glob("*/lab.json"):
        try:
            used.add(json.loads(path.read_text())["majors_from"])
        except (OSError, ValueError, KeyError):
            continue
    wanted = int(identity.name.rpartition("-")[2], 16)
    for step in range(blocks):
        start = FIRST_MAJOR + (wanted + step) % blocks * MAJORS_PER_LAB
        if start not in used:
            return start
    raise LabError(f"{blocks} labs are up on this machine; take one down")


@contextmanager
def locked(identity: Identity) -> Iterator[None]:
    """One command at a time changes a lab. The lock is on its state folder."""
    while True:
        identity.state.mkdir(parents=True, exist_ok=True, mode=0o755)
        folder = os.open(identity.state, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(folder)
            # `down` may have removed the folder while we waited for it.
            if identity.state.exists() and os.path.samestat(
                os.fstat(folder), os.stat(identity.state)
            ):
                yield
                return
        finally:
            _remove_if_empty(identity)
            os.close(folder)


def _remove_if_empty(identity: Identity) -> None:
    """Leaves no folder behind where there is no lab."""
    for folder in (identity.state, identity.state_root):
        try:
            folder.rmdir()
        except OSError:
            return


def _lock(folder: int) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("another command is changing this lab; waiting for it")
        fcntl.flock(folder, fcntl.LOCK_EX)
