"""What a person sees of the lab: status and logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab import state
from lab.cluster import Cluster
from lab.component import Component
from lab.errors import LabError
from lab.state import State


def text(cluster: Cluster) -> str:
    """A table of programs, and where things are."""
    current = cluster.current()
    control = cluster.control(current)
    lines = [
        f"lab         {cluster.identity.name}",
        f"state       {cluster.identity.state}",
        f"programs    {control.programs}",
        f"kubeconfig  {control.admin_kubeconfig}  (for `lab exec`)",
        f"audit log   {control.audit_log}",
        "",
        f"{'PROGRAM':<32} {'PID':>8}  {'MEMORY':>8}",
    ]
    for name, component in components(cluster, current):
        process = component.process()
        pid, memory = ("-", "-") if process is None else (process.pid, _resident(process.pid))
        lines.append(f"{name:<32} {pid:>8}  {memory:>8}")
    for node in current.nodes:
        majors = f"majors {node.channel_major} (channels), {node.capability_major} (capabilities)"
        boot = cluster.node(current, node).boot_id()
        lines.append(f"\n{node.name}: {majors}, boot ID {boot}")
    return "\n".join(lines)


def components(cluster: Cluster, current: State) -> Iterator[tuple[str, Component]]:
    """Every program of the lab by the name that commands take."""
    for component in cluster.control(current).components():
        yield component.name, component
    for entry in current.nodes:
        for component in cluster.node(current, entry).components():
            yield f"{entry.name}/{component.name}", component


def logs(cluster: Cluster, wanted: str | None) -> list[Path]:
    """The log files of a component, a node, or everything."""
    current = state.load(cluster.identity)
    if current is None:
        raise LabError("there is no lab, hence no log")
    known = dict(components(cluster, current))
    if wanted is None:
        chosen = list(known)
    else:
        chosen = [name for name in known if name == wanted or name.startswith(f"{wanted}/")]
        if not chosen:
            raise LabError(f"{wanted!r} is unknown; known are: {', '.join(known)}")
    return [known[name].log for name in chosen if known[name].log.exists()]


def _resident(pid: int) -> str:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return f"{int(line.split()[1]) // 1024} MB"
    return "-"
