"""The world that the driver is made for, without the driver.

containerd injects an IMEX channel by a hand-written CDI spec, `nvidia-imex` runs
on the nodes themselves, and memory is shared between containers of two nodes by
exactly those that hold the exporter's channel.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from lab.identity import CHECKOUT
from lab.processes import wait_until
from tests.lab.machine import IDENTITY, INSTANCE, lab, majors

DRIVER = "/run/nvidia/driver/usr/bin"
CLIENT = "/run/mnnvl/bin/mnnvl"
CHANNELS = "/dev/nvidia-caps-imex-channels"
KIND = "example.com/channel"
NOT_PERMITTED = 10
CONFIG = """\
LOG_FILE_NAME=
DAEMONIZE=0
BIND_INTERFACE_IP={address}
SERVER_PORT=50000
IMEX_NODE_CONFIG_FILE=/run/imex/nodes.cfg
IMEX_WAIT_FOR_QUORUM=NONE
IMEX_CMD_ENABLED=1
IMEX_CMD_BIND_INTERFACE_IP={address}
IMEX_CMD_PORT=50005
"""


@dataclass(frozen=True)
class Node:
    name: str
    address: str

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return lab("node-exec", self.name, *command, check=check)

    def write(self, path: str, text: str) -> None:
        script = 'mkdir -p "$(dirname "$1")" && printf %s "$2" > "$1"'
        self.run("sh", "-c", script, "sh", path, text)

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Goes on until it ends by itself or the node's power is cut."""
        program = [str(CHECKOUT / "lab" / "lab"), "--instance", INSTANCE, "node-exec", self.name]
        return subprocess.Popen(
            [*program, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def container(self, name: str, channel: int, *command: str) -> list[str]:
        """The command of a container that is granted one channel, and its hardware."""
        mount = "type=bind,src=/run/mnnvl,dst=/run/mnnvl,options=rbind:ro"
        cgroup = f"/{IDENTITY.name}/nodes/{self.name}/by-hand/{name}"
        options = ["--device", f"{KIND}={channel}", "--mount", mount, "--cgroup", cgroup]
        ctr = ["ctr", "--namespace", "k8s.io", "run", "--rm", *options]
        return [*ctr, "localhost/busybox:lab", name, *command]


NODES = (Node("node-1", "10.99.1.1"), Node("node-2", "10.99.1.2"))


def cdi_spec(major: str) -> str:
    def device(channel: int) -> dict[str, object]:
        path = f"{CHANNELS}/channel{channel}"
        node = {"path": path, "type": "c", "major": int(major), "minor": channel}
        return {"name": str(channel), "containerEdits": {"deviceNodes": [node]}}

    devices = [device(channel) for channel in (1, 2)]
    return json.dumps({"cdiVersion": "0.5.0", "kind": KIND, "devices": devices})


def start_imex(node: Node) -> subprocess.Popen[str]:
    channel_major, capability_major = majors(node.name)
    node.write("/var/run/cdi/channels.json", cdi_spec(channel_major))
    node.write("/run/imex/nodes.cfg", "".join(f"{each.address}\n" for each in NODES))
    node.write("/run/imex/config.cfg", CONFIG.format(address=node.address))
    capability = node.run("cat", "/run/mnnvl/proc/driver/nvidia/capabilities/fabric-imex-mgmt")
    minor = capability.stdout.split()[1]
    device = f"/dev/nvidia-caps/nvidia-cap{minor}"
    node.run("mkdir", "-p", "/dev/nvidia-caps", "/var/run/nvidia-imex")
    node.run("mknod", "-m", "400", device, "c", capability_major, minor)
    return node.start(f"{DRIVER}/nvidia-imex", "-c", "/run/imex/config.cfg")


@pytest.fixture(scope="module")
def domain(emulated: None) -> Iterator[None]:
    """One IMEX domain of both nodes, with every pair connected."""
    daemons = [start_imex(node) for node in NODES]

    def connected() -> bool:
        ctl = f"{DRIVER}/nvidia-imex-ctl"
        answer = NODES[0].run(ctl, "-c", "/run/imex/config.cfg", "-N", "-j", check=False)
        return answer.returncode == 0 and json.loads(answer.stdout)["status"] == "UP"

    wait_until(connected, component="nvidia-imex", what="connected domain", seconds=30)
    yield
    for daemon in daemons:
        daemon.terminate()
        daemon.communicate()


@contextmanager
def exported(node: Node, name: str, channel: int, text: str) -> Iterator[str]:
    """The handle of memory that a container exports as long as the context lasts."""
    exporter = node.start(*node.container(name, channel, CLIENT, "export", "--text", text))
    assert exporter.stdout is not None
    try:
        yield exporter.stdout.readline().strip()
    finally:
        node.run("ctr", "--namespace", "k8s.io", "task", "kill", name, check=False)
        exporter.communicate()


def test_a_channels_holders_share_memory_across_nodes_and_nobody_else_does(domain: None) -> None:
    one, two = NODES
    with exported(one, "exporter", 1, "secret of channel 1") as handle:
        same = two.run(*two.container("same", 1, CLIENT, "import", handle), check=False)
        assert (same.returncode, same.stdout) == (0, "secret of channel 1\n")
        other = two.run(*two.container("other", 2, CLIENT, "import", handle), check=False)
        assert other.returncode == NOT_PERMITTED


def test_a_device_node_that_a_container_made_itself_gives_it_nothing(domain: None) -> None:
    one, two = NODES
    major, _ = majors("node-2")
    forge = f"mknod {CHANNELS}/channel1 c {major} 1 && exec {CLIENT} import --channel 1 $0"
    with exported(one, "exporter", 1, "secret of channel 1") as handle:
        forger = two.run(*two.container("forger", 2, "sh", "-c", forge, handle), check=False)
        assert forger.returncode == NOT_PERMITTED
        assert "secret" not in forger.stdout


def test_fabric_that_fails_at_run_time_is_seen_by_workloads(domain: None) -> None:
    one, _ = NODES
    lab("topology", "set", "node-1", "gpus.state=not_supported")
    try:
        export = one.container("early", 1, CLIENT, "export")
        assert one.run("timeout", "5", *export, check=False).returncode == 11
    finally:
        lab("topology", "set", "node-1", "gpus.state=completed")
