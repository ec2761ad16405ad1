"""A node of the emulated world with a compute-domain-daemon, and the plugin's side of its files."""

import json
import pathlib

from world import CLUSTER, Node, Program, World, eventually

DOMAIN = {"name": f"{CLUSTER}.1", "uid": "3f0e9c1a-0000-4000-8000-000000000001"}
SLOTS = 4
SIGUSR1 = 10


class DaemonNode:
    def __init__(self, node: Node, daemon: pathlib.Path):
        self.node, self.binary = node, daemon
        self.ip = node.ip
        self.dir = node.directory / "imexd"
        for name in ("desired", "status"):
            (self.dir / name).mkdir(parents=True)
        self.daemon: Program | None = None

    # --- the plugin's side ---
    def desire(self, members: dict, **changes) -> None:
        """Writes desired.json for this node as slot `index` of the domain; `members`: index -> address."""
        index = changes.pop("index", self.node.index)
        domain = {**DOMAIN, "index": index, "slots": SLOTS, **changes.pop("domain", {})}
        self.write_desired(json.dumps({
            "version": 1, "run": True, "bootID": "boot-1", "domain": domain,
            "hosts": [{"index": i, "address": address} for i, address in members.items()], **changes}))

    def write_desired(self, text: str) -> None:
        temporary = self.dir / "desired/.desired.json.new"
        temporary.write_text(text)
        temporary.rename(self.dir / "desired/desired.json")

    def status(self) -> dict:
        try:
            return json.loads((self.dir / "status/status.json").read_text())
        except FileNotFoundError:
            return {}

    def connected(self) -> list:
        return [peer["index"] for peer in self.status().get("peers", []) if peer["state"] == "CONNECTED"]

    # --- the pod ---
    def flags(self) -> list:
        return [f"--dir={self.dir}", f"--pod-ip={self.ip}"]

    def start(self) -> Program:
        self.daemon = self.node.start(
            [self.binary, "run", *self.flags(), "--run-dir=/run/nvidia-imex", f"--imex={self.node.world.bin}/nvidia-imex",
             f"--imex-ctl={self.node.world.bin}/nvidia-imex-ctl"], "daemon")
        return self.daemon

    def check(self):
        return self.node.run([self.binary, "check", *self.flags()])

    def hosts(self) -> dict:
        """Slot -> address of our block in the hosts file."""
        found = {}
        for line in self.node.root("/etc/hosts").read_text().splitlines():
            address, _, name = line.partition("\t")
            if name.startswith("imex-"):
                found[int(name.rpartition("-")[2])] = address
        return found

    # --- what it did ---
    def log(self) -> list:
        return [json.loads(line) for line in self.daemon.err().splitlines()]

    def signals(self, number: int = SIGUSR1) -> int:
        return sum(line["msg"] == "nvidia-imex is signalled" and line["signal"] == number for line in self.log())

    def imex_pids(self) -> list:
        """Of every nvidia-imex this daemon started, in order."""
        return [line["pid"] for line in self.log() if line["msg"] == "nvidia-imex started"]

    def wait_state(self, state: str, **members) -> dict:
        def reached():
            status = self.status()
            return status.get("state") == state and all(status[k] == v for k, v in members.items()) and status
        return eventually(reached, what=f"state {state} {members} of {self.ip}")

    def wait_new_instance(self, old: str) -> dict:
        def reached():
            status = self.status()
            return status.get("state") == "READY" and status["instance"] != old and status
        return eventually(reached, what=f"READY of {self.ip} as another instance than {old}")

    def wait_connected(self, *indexes: int) -> None:
        eventually(lambda: self.connected() == sorted(indexes), what=f"{self.ip} connected with {indexes}: {self.status()}")


class Clique:
    def __init__(self, directory: pathlib.Path, emulator: pathlib.Path, daemon: pathlib.Path):
        self.world, self.daemon = World(directory, emulator), daemon

    def node(self) -> DaemonNode:
        return DaemonNode(self.world.node(), self.daemon)

    def formed(self, count: int) -> list[DaemonNode]:
        """`count` nodes that are members of one domain, READY and connected."""
        nodes = [self.node() for _ in range(count)]
        members = {n.node.index: n.ip for n in nodes}
        for node in nodes:
            node.desire(members)
            node.start()
        for node in nodes:
            node.wait_state("READY")
            node.wait_connected(*(i for i in members if i != node.node.index))
        return nodes

    def close(self) -> None:
        self.world.close()
