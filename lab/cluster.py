"""One lab: its parts, its lock, and how nodes come up in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from lab import images, state
from lab.api import is_ready
from lab.cgroups import CgroupTree
from lab.controlplane import ControlPlane
from lab.errors import LabError
from lab.hardware import Emulator
from lab.identity import Identity
from lab.images import Images
from lab.namespaces import Namespaces
from lab.node import Node
from lab.pki import Pki
from lab.processes import wait_until
from lab.progress import say
from lab.state import NodeState, State

NODE_READY_SECONDS = 90.0

A = TypeVar("A")
T = TypeVar("T")


class Cluster:
    """The lab of an identity, whether it is up or not."""

    def __init__(self, identity: Identity):
        self.identity = identity
        self.cgroups = CgroupTree(identity.name)
        self.images = Images(identity.state / "images")

    @contextmanager
    def changing(self) -> Iterator[tuple[State, ControlPlane, Namespaces]]:
        """The lab that is up, locked against other commands."""
        self.current()
        with state.locked(self.identity):
            current = self.current()
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
            Path(current.programs),
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

    def nodes(self, current: State) -> list[Node]:
        return [self.node(current, node) for node in current.nodes]

    def start_all(self, current: State) -> None:
        """Starts whatever of the lab does not run and waits for all of it."""
        control = self.control(current)
        say(f"lab {self.identity.name}, state in {self.identity.state}")
        if not self.images.archives():
            self._add_busybox()
        control.create_certificates()
        inside = control.start_network()
        with ThreadPoolExecutor(max_workers=1) as pool:
            started = pool.submit(control.start, inside)
            self._boot(current, inside, self.nodes(current))
            started.result()
        say("control plane ready")
        self._join(control, inside, self.nodes(current))

    def start_nodes(self, current: State, inside: Namespaces, nodes: list[Node]) -> None:
        """Boots nodes that are off and waits until they take pods."""
        self._boot(current, inside, nodes)
        self._join(self.control(current), inside, nodes)

    def _add_busybox(self) -> None:
        archive = self.identity.state / "busybox.tar"
        images.write_busybox(archive)
        self.images.add(archive)
        archive.unlink()

    def _boot(self, current: State, control: Namespaces, nodes: list[Node]) -> None:
        """Boots nodes that are off, up to a containerd that has all images."""
        for node in nodes:
            if node.namespaces() is None:
                current.take_majors(node.state)
        state.save(self.identity, current)
        emulator = Emulator(Path(current.emulator)) if current.emulator else None

        def boot(node: Node) -> None:
            running = node.namespaces()
            if running is not None:
                if emulator is not None and emulator.differs_from(node.folder):
                    say(f"{node.name} runs an older emulator; `lab node reboot` changes it")
                node.start_runtime(running)
                return
            namespaces = node.power_on(control, emulator)
            for archive in self.images.archives():
                node.images(namespaces).add(archive)

        in_parallel(boot, nodes)

    def _join(self, control: ControlPlane, inside: Namespaces, nodes: list[Node]) -> None:
        for node in nodes:
            node.start_kubelet()
        api = control.api(inside)
        waiting = {node.name: node for node in nodes}

        def all_ready() -> bool:
            found = api.nodes()
            for name, node in list(waiting.items()):
                ready = name in found and is_ready(found[name], node.boot_id())
                # A kubelet that was killed leaves its node Ready for a while.
                if ready and node.kubelet_is_healthy():
                    say(f"{name} is Ready")
                    del waiting[name]
                for component in node.components():
                    component.check_runs(of=name)
            for component in control.components():
                component.check_runs()
            return not waiting

        try:
            wait_until(all_ready, component="nodes", what="readiness", seconds=NODE_READY_SECONDS)
        except LabError as error:
            if error.log is not None or not waiting:
                raise
            name, node = next(iter(waiting.items()))
            message = f"not Ready within {NODE_READY_SECONDS:.0f} s"
            log = node.kubelet().log
            raise LabError(message, component=f"kubelet of {name}", log=log) from error


def in_parallel(work: Callable[[A], T], items: list[A]) -> list[T]:
    """All results in order; the first failure is raised after all are done."""
    if not items:
        return []
    with ThreadPoolExecutor(max_workers=len(items)) as pool:
        return list(pool.map(work, items))
