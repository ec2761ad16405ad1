"""`up` and `down`: from whatever there is to what is asked for."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from lab import fleet, limits, state, topology
from lab.cluster import Cluster
from lab.errors import LabError
from lab.hardware import Emulator
from lab.programs import folder_of_programs, programs
from lab.progress import say
from lab.state import State
from lab.topology import NodeHardware

DEFAULT_NODES = 2


@dataclass(frozen=True)
class Request:
    """What `up` is asked for; None means as it is, or the default."""

    nodes: int | None = None
    topology: str = "default"
    feature_gates: str | None = None
    emulator: str | None = None  # a folder; "" means to go without


def up(cluster: Cluster, request: Request) -> None:
    """Brings the lab to what was asked; changes nothing that fits."""
    if request.nodes is not None and request.nodes < 1:
        raise LabError(f"--nodes {request.nodes}: a lab has at least one node")
    with state.locked(cluster.identity):
        current = _usable(cluster)
        if current is None:
            current = _new(cluster, request)
        else:
            _change(cluster, current, request)
        limits.check_inotify(len(current.nodes), own={process.pid for process in cluster.cgroups.processes()})
        state.save(cluster.identity, current)
        cluster.start_all(current)
        current.complete = True
        state.save(cluster.identity, current)


def down(cluster: Cluster) -> None:
    """Removes every trace of the lab; fine when there is none."""
    identity = cluster.identity
    if not identity.state.exists() and not cluster.cgroups.processes():
        cluster.cgroups.remove()
        say("no lab is up for this checkout")
        return
    with state.locked(identity):
        cluster.cgroups.kill()
        cluster.cgroups.remove()
        for leftover in identity.state.iterdir():
            _remove(leftover)
    say("the lab is gone")


def _usable(cluster: Cluster) -> State | None:
    """The remembered lab if it can go on; else its leftovers are removed."""
    current = state.load(cluster.identity)
    if current is not None and current.complete and cluster.control(current).namespaces():
        return current
    if current is not None or cluster.cgroups.processes():
        say("removing what an unfinished or killed lab left")
    cluster.cgroups.kill()
    cluster.cgroups.remove()
    for leftover in cluster.identity.state.iterdir():
        _remove(leftover)
    return None


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _new(cluster: Cluster, request: Request) -> State:
    current = state.fresh(cluster.identity)
    current.feature_gates = request.feature_gates or ""
    for hardware in _requested_nodes(request, DEFAULT_NODES):
        current.add_node(hardware)
    current.emulator = _emulator_folder(cluster, request)
    current.programs = str(programs())
    return current


def _emulator_folder(cluster: Cluster, request: Request) -> str:
    if request.emulator == "":
        say("WARNING: no emulator: nodes have no GPUs, no fabric and no IMEX channels")
        return ""
    folder = request.emulator or cluster.identity.checkout / "build" / "release" / "emulator"
    emulator = Emulator(Path(folder).resolve())
    emulator.check()
    return str(emulator.folder)


def _change(cluster: Cluster, current: State, request: Request) -> None:
    """Adds and removes nodes of a lab that is up; refuses other changes."""
    if not Path(current.programs).exists():
        current.programs = str(programs())
    elif Path(current.programs) != folder_of_programs():
        say("the lab runs programs of other versions than lab/programs now has; `lab down` first")
    if request.feature_gates not in (None, current.feature_gates):
        raise LabError(
            f"the lab is up with --feature-gates={current.feature_gates!r}; "
            "run `lab down` before `lab up` with others"
        )
    if request.emulator is not None and bool(request.emulator) != bool(current.emulator):
        has = "with an" if current.emulator else "without"
        raise LabError(f"the lab is up {has} emulator; run `lab down` to change that")
    if request.emulator:
        current.emulator = _emulator_folder(cluster, request)
    if request.nodes is None and request.topology == "default":
        return
    wanted = {node.name: node for node in _requested_nodes(request, len(current.nodes))}
    for node in list(current.nodes):
        if node.name not in wanted:
            fleet.forget(cluster, current, node)
    known = {node.name for node in current.nodes}
    for name, hardware in wanted.items():
        if name not in known:
            current.add_node(hardware)


def _requested_nodes(request: Request, otherwise: int) -> list[NodeHardware]:
    """The nodes that `up` shall bring: the file's, or made ones."""
    if request.topology == "default":
        count = otherwise if request.nodes is None else request.nodes
        return [topology.default_node(f"node-{number}") for number in range(1, count + 1)]
    nodes = topology.load(request.topology)
    if request.nodes is not None and request.nodes > len(nodes):
        raise LabError(
            f"topology {request.topology} has {len(nodes)} nodes, --nodes asks for {request.nodes}"
        )
    return nodes if request.nodes is None else nodes[: request.nodes]
