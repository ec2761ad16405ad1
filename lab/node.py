"""A node of the lab: boot, stop, and what a kubelet needs on it.

A node is a network, mount and UTS namespace with the kernel model, containerd,
kubelet and kube-proxy in it. To boot is to make the namespaces anew: like a
machine's, a node's `/run` and device numbers do not outlive a boot, its disk
(`/var/lib`, `/var/log`) does.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from lab import hardware, network, nodeconfig
from lab.cgroups import CgroupTree
from lab.component import PATH, Component
from lab.controlplane import SERVER, ControlPlane
from lab.hardware import Emulator
from lab.identity import CHECKOUT
from lab.images import ImageStore
from lab.namespaces import Namespaces
from lab.pki import Subject, kubeconfig
from lab.processes import wait_until
from lab.state import NodeState

START_SECONDS = 30.0
KUBELET_HEALTH_PORT = 10248
HEALTH_SECONDS = 5.0

# Paths as the node sees them, see lab.holder.
CONFIG = "/run/lab/config"
PROGRAMS = "/run/lab/bin"
MNNVL = "/run/mnnvl"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"


@dataclass(frozen=True)
class Node:
    """Operations on one node; what it is made of stands in `state`."""

    state: NodeState
    folder: Path
    control: ControlPlane
    cgroups: CgroupTree
    emulated: bool

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def address(self) -> str:
        return network.node_address(self.state.index)

    @property
    def mnnvl(self) -> Path:
        return self.folder / "mnnvl"

    def environment(self) -> dict[str, str]:
        return {"PATH": f"{PROGRAMS}:{PATH}"}

    def boot_id(self) -> str:
        return hardware.boot_id(self.mnnvl)

    def namespaces(self) -> Namespaces | None:
        """The running node's namespaces; None when it is switched off."""
        process = self._holder().process()
        return None if process is None else Namespaces(process.pid, whole_node=True)

    def power_on(self, control: Namespaces, emulator: Emulator | None) -> Namespaces:
        """Boots a node that is off, up to a containerd that takes images."""
        self._sweep()
        for name in ("config", "driver", "mnnvl", "var-lib", "var-log", "log", "pid"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        hardware.power_on(self.mnnvl, self.state.hardware)
        if emulator is not None:
            emulator.install(self.folder)
        self._write_config()
        process, _ = self._holder().ensure()
        namespaces = Namespaces(process.pid, whole_node=True)
        network.set_up_node(control, namespaces, self.name, self.state.index)
        self.start_runtime(namespaces)
        return namespaces

    def start_runtime(self, namespaces: Namespaces) -> None:
        """Starts kernel model and containerd unless they run."""
        if self.emulated:
            kernel = self.kernel()
            kernel.ensure()
            self._wait_for_socket(kernel, self.mnnvl / "kernel.sock")
        containerd = self.containerd()
        containerd.ensure()
        root = Path(f"/proc/{namespaces.holder}/root")
        self._wait_for_socket(containerd, root / CONTAINERD_SOCKET.lstrip("/"))

    def start_kubelet(self) -> None:
        """Starts what speaks to the API server unless it runs."""
        self.kube_proxy().ensure()
        self.kubelet().ensure()

    def images(self, inside: Namespaces) -> ImageStore:
        marks = self.folder / "var-lib" / "containerd" / "lab-imports"
        return ImageStore(self.name, inside, self.control.programs, marks)

    def kubelet_is_healthy(self) -> bool:
        """Asks the kubelet itself, by the port that only its node can reach."""
        inside = self.namespaces()
        if inside is None:
            return False
        try:
            with inside.connect(("127.0.0.1", KUBELET_HEALTH_PORT), HEALTH_SECONDS) as plain:
                plain.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                return b" 200 " in plain.recv(64)
        except OSError:
            return False

    def power_off(self) -> None:
        """Cuts the power: nothing on the node gets a chance to say goodbye."""
        self._sweep()

    def remove(self, control: Namespaces | None) -> None:
        """Switches the node off and forgets its disk."""
        self._sweep()
        if control is not None:
            route = ["ip", "route", "flush", network.pod_network(self.state.index)]
            control.run(route, component=f"network of {self.name}")
        shutil.rmtree(self.folder, ignore_errors=False)

    def _sweep(self) -> None:
        self.cgroups.kill("nodes", self.name)
        self.cgroups.remove("nodes", self.name)
        shutil.rmtree(self.folder / "pid", ignore_errors=True)

    def _wait_for_socket(self, component: Component, path: Path) -> None:
        wait_until(
            path.is_socket,
            component=f"{component.name} of {self.name}",
            what="socket",
            seconds=START_SECONDS,
            log=component.log,
            process=component.process(),
        )

    def components(self) -> list[Component]:
        """All programs of the node; they can be started when it is on."""
        found = [self.containerd(), self.kubelet(), self.kube_proxy()]
        return [self.kernel(), *found] if self.emulated else found

    def kernel(self) -> Component:
        channel, capability = self.state.channel_major, self.state.capability_major
        numbers = ["--major", str(channel), "--caps-major", str(capability)]
        command = [f"{CONFIG}/{hardware.KERNEL}", "--dir", MNNVL, *numbers]
        return self._component(hardware.KERNEL, command)

    def containerd(self) -> Component:
        command = [f"{PROGRAMS}/containerd", "--config", f"{CONFIG}/containerd.toml"]
        return self._component("containerd", command)

    def kubelet(self) -> Component:
        command = [
            f"{PROGRAMS}/kubelet",
            f"--config={CONFIG}/kubelet.json",
            f"--kubeconfig={CONFIG}/kubelet.kubeconfig",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
            f"--boot-id-file={MNNVL}/boot_id",
            "--housekeeping-interval=30s",
            *self._labels(),
            "--v=2",
        ]
        return self._component("kubelet", command)

    def _labels(self) -> list[str]:
        # On real nodes GPU feature discovery says so.
        has_gpus = self.emulated and self.state.hardware["gpus"]
        return ["--node-labels=nvidia.com/gpu.present=true"] if has_gpus else []

    def kube_proxy(self) -> Component:
        command = [f"{PROGRAMS}/kube-proxy", f"--config={CONFIG}/kube-proxy.json"]
        return self._component("kube-proxy", command)

    def _component(self, name: str, command: list[str]) -> Component:
        return Component(
            name,
            command,
            self.folder,
            self.cgroups.create("nodes", self.name, "system"),
            self.namespaces(),
            environment=self.environment(),
        )

    def _holder(self) -> Component:
        title = f"{self.cgroups.name} {self.name}"
        arguments = [title, self.name, str(self.folder), str(self.control.programs)]
        return Component(
            "namespaces",
            [sys.executable, "-m", "lab.holder", *arguments],
            self.folder,
            self.cgroups.create("nodes", self.name, "system"),
            environment={"PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"},
            ready_line="ready",
        )

    def create_certificate(self) -> None:
        """One certificate serves as the kubelet's client and server side."""
        subject = Subject(f"system:node:{self.name}", ["system:nodes"])
        names = [f"IP:{self.address}", f"DNS:{self.name}"]
        self.control.pki.issue(f"node-{self.name}-{self.state.index}", subject, names)

    def _write_config(self) -> None:
        self.create_certificate()
        pki, config = self.control.pki, self.folder / "config"
        own = f"node-{self.name}-{self.state.index}"
        copies = {
            pki.authority: "ca.crt",
            pki.certificate(own): "kubelet.crt",
            pki.key(own): "kubelet.key",
            pki.certificate("kube-proxy"): "kube-proxy.crt",
            pki.key("kube-proxy"): "kube-proxy.key",
        }
        for source, target in copies.items():
            shutil.copy(source, config / target)
        for user in ("kubelet", "kube-proxy"):
            files = [f"{CONFIG}/{name}" for name in ("ca.crt", f"{user}.crt", f"{user}.key")]
            (config / f"{user}.kubeconfig").write_text(kubeconfig(SERVER, *files))
        nodeconfig.write(
            config,
            self.control.programs,
            name=self.name,
            index=self.state.index,
            cgroup=self.cgroups.create_parent("nodes", self.name),
            feature_gates=self.control.feature_gates,
        )

