"""The lab as a whole: up, down, and the life of its nodes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lab import images, state, topology
from lab.api import is_ready
from lab.cgroups import CgroupTree
from lab.component import Component
from lab.controlplane import ControlPlane
from lab.errors import LabError
from lab.hardware import Emulator
from lab.identity import Identity
from lab.images import Images
from lab.namespaces import Namespaces
from lab.node import Node
from lab.pki import Pki
from lab.processes import wait_until
from lab.programs import programs
from lab.progress import say
from lab.state import NodeState, State
from lab.topology import NodeHardware

DEFAULT_NODES = 2
NODE_READY_SECONDS = 90.0

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """What `up` is asked for; None means as it is, or the default."""

    nodes: int | None = None
    topology: str = "default"
    feature_gates: str | None = None
    emulator: str | None = None  # a folder; "" means to go without


class Cluster:
    """One lab. Its methods take a lock where they change something."""

    def __init__(self, identity: Identity):
        self.identity = identity
        self.cgroups = CgroupTree(identity.name)
        self.images = Images(identity.state / "images")

    # --- up and down -----------------------------------------------------

    def up(self, request: Request) -> None:
        """Brings the lab to what was asked; changes nothing that fits."""
        with state.locked(self.identity):
            current = self._current()
            if current is None:
                current = self._new_state(request)
            else:
                self._apply(current, request)
            state.save(self.identity, current)
            self._start_all(current)
            current.complete = True
            state.save(self.identity, current)

    def down(self) -> None:
        """Removes every trace of the lab; fine when there is none."""
        if not self.identity.state.exists() and not self.cgroups.processes():
            say("no lab is up for this checkout")
            self.cgroups.remove()
            return
        with state.locked(self.identity):
            self._sweep()
        say("the lab is gone")

    def _sweep(self) -> None:
        self.cgroups.kill()
        self.cgroups.remove()
        shutil.rmtree(self.identity.state)
        if not any(self.identity.state_root.iterdir()):
            self.identity.state_root.rmdir()

    def _current(self) -> State | None:
        """The remembered lab if it can go on; else its leftovers are removed."""
        current = state.load(self.identity)
        usable = current is not None and current.complete
        if current is not None and usable and self.control(current).namespaces() is not None:
            return current
        if current is not None or self.cgroups.processes():
            say("removing what an unfinished or killed lab left")
            self.cgroups.kill()
            self.cgroups.remove()
            for leftover in self.identity.state.iterdir():
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        return None

    def _new_state(self, request: Request) -> State:
        current = state.fresh(self.identity)
        current.feature_gates = request.feature_gates or ""
        current.emulator = self._emulator_folder(request)
        for hardware in _requested_nodes(request, DEFAULT_NODES):
            current.add_node(hardware)
        return current

    def _emulator_folder(self, request: Request) -> str:
        if request.emulator == "":
            say("WARNING: no emulator: nodes have no GPUs, no fabric and no IMEX channels")
            return ""
        folder = request.emulator or self.identity.checkout / "build" / "release" / "emulator"
        emulator = Emulator(Path(folder).resolve())
        emulator.check()
        return str(emulator.folder)

    def _apply(self, current: State, request: Request) -> None:
        """Adds and removes nodes of a lab that is up; refuses other changes."""
        if request.feature_gates not in (None, current.feature_gates):
            raise LabError(
                f"the lab is up with --feature-gates={current.feature_gates!r}; "
                "run `lab down` before `lab up` with others"
            )
        if request.emulator is not None and bool(request.emulator) != bool(current.emulator):
            raise LabError("the lab is up with or without emulator; run `lab down` to change that")
        if request.nodes is None and request.topology == "default":
            return
        wanted = {node.name: node for node in _requested_nodes(request, len(current.nodes))}
        for node in list(current.nodes):
            if node.name not in wanted:
                self._remove(current, node)
        known = {node.name for node in current.nodes}
        for name, hardware in wanted.items():
            if name not in known:
                current.add_node(hardware)

    def _start_all(self, current: State) -> None:
        control = self.control(current)
        say(f"lab {self.identity.name}, state in {self.identity.state}")
        if not self.images.archives():
            self._add_busybox()
        control.create_certificates()
        inside = control.start_network()
        nodes = [self.node(current, node) for node in current.nodes]
        with ThreadPoolExecutor(max_workers=1) as pool:
            started = pool.submit(control.start, inside)
            booted = self._boot(current, inside, nodes)
            started.result()
        say("control plane ready")
        self._join(control, inside, booted)

    def _add_busybox(self) -> None:
        archive = self.identity.state / "busybox.tar"
        images.write_busybox(archive)
        self.images.add(archive)
        archive.unlink()

    # --- nodes -----------------------------------------------------------

    def _boot(
        self, current: State, control: Namespaces, nodes: list[Node]
    ) -> list[tuple[Node, Namespaces]]:
        """Nodes with a containerd that has all images, booted where they were off."""
        off = {node.name for node in nodes if node.namespaces() is None}
        for node in nodes:
            if node.name in off:
                current.take_majors(node.state)
        state.save(self.identity, current)
        emulator = Emulator(Path(current.emulator)) if current.emulator else None

        def boot(node: Node) -> Namespaces:
            running = node.namespaces()
            if running is not None:
                node.start_runtime(running)
                return running
            namespaces = node.power_on(control, emulator)
            for archive in self.images.archives():
                images.import_into(namespaces, node.name, node.control.programs, archive)
            return namespaces

        return list(zip(nodes, in_parallel(boot, nodes), strict=True))

    def _join(
        self, control: ControlPlane, inside: Namespaces, booted: list[tuple[Node, Namespaces]]
    ) -> None:
        """Starts the kubelets and waits until the nodes take pods."""
        for node, namespaces in booted:
            node.start_kubelet(namespaces)
        self._wait_ready(control, inside, [node for node, _ in booted])

    def _wait_ready(self, control: ControlPlane, inside: Namespaces, nodes: list[Node]) -> None:
        api = control.api(inside)
        waiting = {node.name: node for node in nodes}

        def all_ready() -> bool:
            found = api.nodes()
            for name, node in list(waiting.items()):
                if name in found and is_ready(found[name], node.boot_id()):
                    say(f"{name} is Ready")
                    del waiting[name]
                elif (kubelet := node.kubelet(None)).process() is None:
                    raise LabError("ended", component=f"kubelet of {name}", log=kubelet.log)
            return not waiting

        try:
            wait_until(
                all_ready, component="nodes", what="readiness", seconds=NODE_READY_SECONDS
            )
        except LabError as error:
            if error.log is not None or not waiting:
                raise
            name, node = next(iter(waiting.items()))
            log = node.kubelet(None).log
            message = f"not Ready within {NODE_READY_SECONDS:.0f} s"
            raise LabError(message, component=f"kubelet of {name}", log=log) from error

    def start_node(self, name: str) -> None:
        with self.changing() as (current, control, inside):
            node = self.node(current, current.node(name))
            self._join(control, inside, self._boot(current, inside, [node]))

    def stop_node(self, name: str) -> None:
        with self.changing() as (current, _, _):
            self.node(current, current.node(name)).power_off()
            say(f"{name} is off")

    def reboot_node(self, name: str) -> None:
        with self.changing() as (current, control, inside):
            node = self.node(current, current.node(name))
            node.power_off()
            self._join(control, inside, self._boot(current, inside, [node]))

    def add_node(self, name: str | None, source: str) -> str:
        """Adds one node: of the default topology, or as a topology file has it."""
        with self.changing() as (current, control, inside):
            hardware = _hardware_to_add(current, name, source)
            node = self.node(current, current.add_node(hardware))
            state.save(self.identity, current)
            self._join(control, inside, self._boot(current, inside, [node]))
            return node.name

    def remove_node(self, name: str) -> None:
        with self.changing() as (current, _, _):
            self._remove(current, current.node(name))

    def _remove(self, current: State, node: NodeState) -> None:
        control = self.control(current)
        inside = control.require_namespaces()
        self.node(current, node).remove(inside)
        control.api(inside).delete_node(node.name)
        current.nodes.remove(node)
        state.save(self.identity, current)
        say(f"{node.name} is removed")

    def change_component(self, name: str, action: str) -> None:
        """Stops, kills or starts one program, as a test of faults needs it."""
        with self.changing() as (current, control, inside):
            component = self._component(current, control, inside, name)
            process = component.process()
            if action == "kill" and process is not None:
                process.kill()
            elif action in ("stop", "restart"):
                component.stop()
            if action in ("start", "restart"):
                component.ensure()
            if action in ("start", "restart") and name == "kube-apiserver":
                control.wait_ready(inside)

    def _component(
        self, current: State, control: ControlPlane, inside: Namespaces, name: str
    ) -> Component:
        node_name, slash, program = name.partition("/")
        if not slash:
            return control.component(name, inside)
        node = self.node(current, current.node(node_name))
        for component in node.components(node.namespaces()):
            if component.name == program:
                return component
        raise LabError(f"{node_name} has no program {program!r}")

    # --- the parts -------------------------------------------------------

    @contextmanager
    def changing(self) -> Iterator[tuple[State, ControlPlane, Namespaces]]:
        """The lab that is up, locked against other commands."""
        current = self.current()
        with state.locked(self.identity):
            control = self.control(current)
            yield current, control, control.require_namespaces()

    def current(self) -> State:
        """The lab that is up; an error when there is none."""
        current = state.load(self.identity)
        if current is None or self.control(current).namespaces() is None:
            raise LabError("no lab is up for this checkout; start it with `lab up`")
        return current

    def control(self, current: State) -> ControlPlane:
        return ControlPlane(
            self.identity.name,
            self.identity.state / "control",
            programs(),
            Pki(self.identity.state / "pki"),
            self.cgroups,
            current.feature_gates,
        )

    def node(self, current: State, node: NodeState) -> Node:
        return Node(
            node,
            self.identity.state / "nodes" / node.name,
            self.control(current),
            self.cgroups,
            emulated=bool(current.emulator),
        )

    def import_image(self, archive: Path, only: str | None = None) -> None:
        """Puts an image into the running nodes, and into later ones."""
        with self.changing() as (current, control, _):
            name = images.image_name(archive)
            kept = archive if only else self.images.add(archive)
            wanted = [current.node(only)] if only else current.nodes
            nodes = [self.node(current, node) for node in wanted]

            def import_one(node: Node) -> None:
                namespaces = node.namespaces()
                if namespaces is not None:
                    images.import_into(namespaces, node.name, control.programs, kept)

            in_parallel(import_one, nodes)
            say(f"{name} is on {', '.join(node.name for node in nodes)}")


def in_parallel(work: Callable[[A], T], items: list[A]) -> list[T]:
    """All results in order; the first failure is raised after all are done."""
    if not items:
        return []
    with ThreadPoolExecutor(max_workers=len(items)) as pool:
        return list(pool.map(work, items))


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


def _hardware_to_add(current: State, name: str | None, source: str) -> NodeHardware:
    known = {node.name for node in current.nodes}
    if source == "default":
        numbers = range(1, len(known) + 2)
        free = next(f"node-{number}" for number in numbers if f"node-{number}" not in known)
        return topology.default_node(name or free)
    for hardware in topology.load(source):
        if hardware.name == name or (name is None and hardware.name not in known):
            return hardware
    raise LabError(f"topology {source} has no node {name or 'that is not in the lab yet'}")
