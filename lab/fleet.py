"""What can be done to a lab that is up: to its nodes, programs and images."""

from __future__ import annotations

from pathlib import Path

from lab import hardware, images, state, topology
from lab.cluster import Cluster, in_parallel
from lab.component import Component
from lab.errors import LabError
from lab.node import Node
from lab.progress import say
from lab.state import NodeState, State
from lab.topology import NodeHardware


def start(cluster: Cluster, name: str) -> None:
    with cluster.changing() as (current, _, inside):
        cluster.start_nodes(current, inside, [cluster.node(current, current.node(name))])


def stop(cluster: Cluster, name: str) -> None:
    """Cuts a node's power; the cluster finds out by itself."""
    with cluster.changing() as (current, _, _):
        cluster.node(current, current.node(name)).power_off()
        say(f"{name} is off")


def reboot(cluster: Cluster, name: str) -> None:
    with cluster.changing() as (current, _, inside):
        node = cluster.node(current, current.node(name))
        node.power_off()
        cluster.start_nodes(current, inside, [node])


def add(cluster: Cluster, name: str | None, source: str) -> None:
    """Adds one node: of the default topology, or as a topology file has it."""
    with cluster.changing() as (current, _, inside):
        entry = current.add_node(_hardware_to_add(current, name, source))
        state.save(cluster.identity, current)
        cluster.start_nodes(current, inside, [cluster.node(current, entry)])


def remove(cluster: Cluster, name: str) -> None:
    with cluster.changing() as (current, _, _):
        forget(cluster, current, current.node(name))


def forget(cluster: Cluster, current: State, node: NodeState) -> None:
    """Switches a node off and removes its disk and its Node object."""
    control = cluster.control(current)
    inside = control.require_namespaces()
    cluster.node(current, node).remove(inside)
    control.api(inside).delete_node(node.name)
    current.nodes.remove(node)
    state.save(cluster.identity, current)
    say(f"{node.name} is removed")


def _hardware_to_add(current: State, name: str | None, source: str) -> NodeHardware:
    known = {node.name for node in current.nodes}
    if source == "default":
        numbers = range(1, len(known) + 2)
        free = next(f"node-{number}" for number in numbers if f"node-{number}" not in known)
        return topology.default_node(name or free)
    for candidate in topology.load(source):
        if candidate.name == name or (name is None and candidate.name not in known):
            return candidate
    raise LabError(f"topology {source} has no node {name or 'that is not in the lab yet'}")


def change_component(cluster: Cluster, name: str, action: str) -> None:
    """Stops, kills or starts one program, as a test of faults needs it."""
    with cluster.changing() as (current, control, inside):
        component = _component(cluster, current, name)
        process = component.process()
        if action == "kill" and process is not None:
            process.kill()
        elif action in ("stop", "restart"):
            component.stop()
        if action in ("start", "restart"):
            component.ensure()
            if name == "kube-apiserver":
                control.wait_ready(inside)


def _component(cluster: Cluster, current: State, name: str) -> Component:
    node_name, slash, program = name.partition("/")
    if not slash:
        return cluster.control(current).component(name)
    node = cluster.node(current, current.node(node_name))
    if node.namespaces() is None:
        raise LabError(f"{node_name} is off; start it with `lab node start {node_name}`")
    for component in node.components():
        if component.name == program:
            return component
    raise LabError(f"{node_name} has no program {program!r}")


def import_image(cluster: Cluster, archive: Path, only: str | None = None) -> None:
    """Puts an image into the running nodes, and into all later ones.

    With `only` it goes to that one node and is not kept for others.
    """
    with cluster.changing() as (current, _, _):
        name = images.image_name(archive)
        kept = archive if only else cluster.images.add(archive)
        wanted = [current.node(only)] if only else current.nodes

        def import_one(node: Node) -> None:
            inside = node.namespaces()
            if inside is not None:
                node.images(inside).add(kept)

        in_parallel(import_one, [cluster.node(current, node) for node in wanted])
        say(f"{name} is on {', '.join(node.name for node in wanted)}")


def set_hardware(cluster: Cluster, name: str, assignments: list[str]) -> None:
    """Changes what a node's hardware reports from now on, across its reboots."""
    with cluster.changing() as (current, _, _):
        node = cluster.node(current, current.node(name))
        content = hardware.read_node_json(node.mnnvl)
        hardware.set_values(content, assignments)
        hardware.write_node_json(node.mnnvl, content)
