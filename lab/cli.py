"""The command line of the lab."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from lab import fleet, lifecycle, status
from lab.cluster import Cluster
from lab.errors import LabError
from lab.identity import CHECKOUT, Identity
from lab.lifecycle import Request
from lab.programs import programs
from lab.progress import say

INSTANCE_VARIABLE = "COMPUTEDOMAIN_LAB_INSTANCE"


def main() -> int:
    arguments = parser().parse_args()
    try:
        if os.geteuid() != 0:
            raise LabError("the lab makes namespaces, cgroups and mounts: run it as root")
        run(arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; `lab up` goes on, `lab down` cleans up", file=sys.stderr)
        return 130
    return 0


def run(arguments: argparse.Namespace) -> None:
    cluster = Cluster(Identity(CHECKOUT, arguments.instance))
    COMMANDS[arguments.command](cluster, arguments)


def up(cluster: Cluster, arguments: argparse.Namespace) -> None:
    emulator = "" if arguments.without_emulator else arguments.emulator
    request = Request(arguments.nodes, arguments.topology, arguments.feature_gates, emulator)
    lifecycle.up(cluster, request)
    say("the lab is up: try `lab/lab kubectl get nodes`")


def down(cluster: Cluster, _: argparse.Namespace) -> None:
    lifecycle.down(cluster)


def build(_: Cluster, arguments: argparse.Namespace) -> None:
    folder = programs()
    if arguments.print_path:
        print(folder)
    else:
        say(f"the programs are in {folder}")


def execute(cluster: Cluster, arguments: argparse.Namespace) -> None:
    replace_by(cluster, arguments.arguments)


def kubectl(cluster: Cluster, arguments: argparse.Namespace) -> None:
    replace_by(cluster, ["kubectl", *arguments.arguments])


def helm(cluster: Cluster, arguments: argparse.Namespace) -> None:
    replace_by(cluster, ["helm", *arguments.arguments])


def replace_by(cluster: Cluster, command: list[str]) -> NoReturn:
    """Becomes the command, in the control plane's network."""
    if not command:
        raise LabError("name a command to run")
    control = cluster.control(cluster.current())
    environment = dict(os.environ) | control.environment()
    environment["PATH"] += ":" + os.environ.get("PATH", "")
    enter = control.require_namespaces().enter()
    os.execvpe(enter[0], [*enter, *command], environment)


def node(cluster: Cluster, arguments: argparse.Namespace) -> None:
    name = arguments.node
    if arguments.action == "add":
        fleet.add(cluster, name, arguments.topology)
        return
    if name is None:
        raise LabError(f"name the node to {arguments.action}")
    actions = {
        "start": fleet.start,
        "stop": fleet.stop,
        "reboot": fleet.reboot,
        "remove": fleet.remove,
    }
    actions[arguments.action](cluster, name)


def node_exec(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Becomes a command on a node: its network, mounts and host name."""
    current = cluster.current()
    found = cluster.node(current, current.node(arguments.node))
    namespaces = found.namespaces()
    if namespaces is None:
        raise LabError(f"{found.name} is off; start it with `lab node start {found.name}`")
    environment = dict(os.environ) | found.environment()
    command = arguments.arguments or ["/bin/sh"]
    enter = namespaces.enter()
    os.execvpe(enter[0], [*enter, *command], environment)


def component(cluster: Cluster, arguments: argparse.Namespace) -> None:
    fleet.change_component(cluster, arguments.name, arguments.action)


def logs(cluster: Cluster, arguments: argparse.Namespace) -> None:
    paths = status.logs(cluster, arguments.name)
    follow = ["--follow=name"] if arguments.follow else []
    os.execvp("tail", ["tail", f"--lines={arguments.lines}", *follow, *map(str, paths)])


def show_status(cluster: Cluster, _: argparse.Namespace) -> None:
    print(status.text(cluster))


def import_images(cluster: Cluster, arguments: argparse.Namespace) -> None:
    for archive in arguments.archives:
        fleet.import_image(cluster, Path(archive), arguments.node)


def topology(cluster: Cluster, arguments: argparse.Namespace) -> None:
    if arguments.action == "set":
        fleet.set_hardware(cluster, arguments.node, arguments.assignments)
    current = cluster.current()
    node_json = cluster.node(current, current.node(arguments.node)).mnnvl / "node.json"
    print(node_json.read_text(), end="")


def install(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Becomes the installer, which is a user of the lab like any other."""
    cluster.current()
    os.environ[INSTANCE_VARIABLE] = arguments.instance
    os.environ["PYTHONPATH"] = str(CHECKOUT)
    os.execv(sys.executable, [sys.executable, "-m", "deploy.lab_install", *arguments.arguments])


COMMANDS = {
    "up": up,
    "down": down,
    "build": build,
    "install": install,
    "status": show_status,
    "exec": execute,
    "kubectl": kubectl,
    "helm": helm,
    "node": node,
    "node-exec": node_exec,
    "component": component,
    "logs": logs,
    "images": import_images,
    "topology": topology,
}


def parser() -> argparse.ArgumentParser:
    lab = argparse.ArgumentParser(
        prog="lab", description="A real multi-node Kubernetes on this machine. Needs root."
    )
    lab.add_argument(
        "--instance",
        default=os.environ.get(INSTANCE_VARIABLE, ""),
        help=f"name of a further lab of this checkout (also: {INSTANCE_VARIABLE})",
    )
    commands = lab.add_subparsers(dest="command", required=True)
    _add_up(commands.add_parser("up", help="start the lab, or bring it to what is asked"))
    commands.add_parser("down", help="remove every trace of the lab")
    commands.add_parser("status", help="what runs and where it is")
    only_build = commands.add_parser("build", help="only build the programs")
    only_build.add_argument("--print-path", action="store_true", help="print their folder")
    for name, what in (
        ("exec", "run a command where the cluster can be reached, with KUBECONFIG and PATH set"),
        ("kubectl", "run kubectl on the cluster"),
        ("helm", "run helm on the cluster"),
        ("install", "install or upgrade the driver in the lab; --help tells its options"),
    ):
        command = commands.add_parser(name, help=what, prefix_chars="\0")
        command.add_argument("arguments", nargs=argparse.REMAINDER)
    _add_node(commands.add_parser("node", help="start, stop, reboot, add or remove a node"))
    inside = commands.add_parser("node-exec", help="run a command on a node", prefix_chars="\0")
    inside.add_argument("node")
    inside.add_argument("arguments", nargs=argparse.REMAINDER)
    part = commands.add_parser("component", help="stop, kill, start or restart one program")
    part.add_argument("action", choices=("start", "stop", "kill", "restart"))
    part.add_argument("name", help="such as kube-apiserver or node-1/kubelet")
    log = commands.add_parser("logs", help="the end of the logs")
    log.add_argument("name", nargs="?", help="a component, a node, or node-1/kubelet")
    log.add_argument("--lines", type=int, default=50)
    log.add_argument("--follow", "-f", action="store_true")
    image = commands.add_parser("images", help="put container images into the nodes")
    image.add_argument("action", choices=("import",))
    image.add_argument("archives", nargs="+", metavar="TAR")
    image.add_argument("--node", help="only into this node")
    gpus = commands.add_parser("topology", help="show or change the hardware of a node")
    gpus.add_argument("action", choices=("show", "set"))
    gpus.add_argument("node")
    gpus.add_argument("assignments", nargs="*", metavar="PATH=VALUE")
    return lab


def _add_up(command: argparse.ArgumentParser) -> None:
    command.add_argument("--nodes", type=int, help="how many (default: as it is, or 2)")
    command.add_argument("--topology", default="default", metavar="FILE|default")
    command.add_argument("--feature-gates", metavar="GATE=true,…", help="for all of Kubernetes")
    command.add_argument("--emulator", metavar="DIR", help="default: build/release/emulator")
    command.add_argument("--without-emulator", action="store_true", help="nodes without GPUs")


def _add_node(command: argparse.ArgumentParser) -> None:
    command.add_argument("action", choices=("start", "stop", "reboot", "add", "remove"))
    command.add_argument("node", nargs="?", metavar="NODE")
    command.add_argument(
        "--topology", default="default", metavar="FILE|default", help="what an added node is like"
    )
