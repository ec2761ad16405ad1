"""Emulated nodes without Kubernetes: each a mount namespace with its own /dev, /run and /etc/hosts, an address of the
loopback network, a kernel model, and whatever programs a test starts in it. Needs root; leaves nothing behind."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import uuid

CLUSTER = "6a130f54-1c66-4f20-9a5b-0d2f0f6f7a11"
PEER_PORT = 50000
COMMAND_PORT = 50005
CAPABILITY = "/dev/nvidia-caps/nvidia-cap3"


def eventually(condition, timeout: float = 15, what: str = ""):
    """Waits until `condition()` is true and returns its value; fails with `what` and the last value."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {timeout} s: {what or condition} (last: {value!r})"
        time.sleep(0.02)


class Program:
    """A running program; its output goes to files, so that it never blocks."""

    def __init__(self, argv: list, directory: pathlib.Path, name: str, env: dict):
        self.out_path, self.err_path = directory / f"{name}.out", directory / f"{name}.err"
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env)

    @property
    def pid(self) -> int:
        return self.process.pid

    def out(self) -> str:
        return self.out_path.read_text()

    def err(self) -> str:
        return self.err_path.read_text()

    def first_line(self) -> str:
        return eventually(lambda: self.out().partition("\n")[0] if "\n" in self.out() else self._ended(), what="a line")

    def _ended(self):
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.err()}"

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, timeout: float = 15) -> int:
        return self.process.wait(timeout)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                return self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait(10)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


class Node:
    def __init__(self, world: "World", index: int):
        self.world, self.index = world, index
        self.ip = f"{world.network}.{index + 1}"
        self.directory = world.directory / f"node-{index}"
        self.directory.mkdir()
        # Majors no driver has registered, another pair on every node.
        self.major, self.caps_major = 3000 + 2 * index, 3001 + 2 * index
        self.write()
        self._holder = self._make_namespace()
        self._count = 0
        self.kernel: Program | None = None
        self.imex: Program | None = None

    # --- hardware ---
    def write(self, **changes) -> None:
        """node.json with one GPU; `gpu` changes members of that."""
        gpu = {"uuid": f"GPU-{self.index}", "clusterUuid": CLUSTER, "cliqueId": 1, "state": "completed",
               "status": "success", "healthMask": 0xAA, "healthSummary": 1, **changes.pop("gpu", {})}
        state = {"node": f"node-{self.index}", "driverVersion": "580.105.08", "channelCount": 2048, "gpus": [gpu], **changes}
        temporary = self.directory / ".node.json"
        temporary.write_text(json.dumps(state))
        temporary.rename(self.directory / "node.json")

    def _make_namespace(self) -> subprocess.Popen:
        hosts = self.directory / "hosts"
        hosts.write_text("127.0.0.1 localhost\n")
        script = f"""
            set -e
            mount -t tmpfs dev /dev
            mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9
            mkdir /dev/nvidia-caps /dev/nvidia-caps-imex-channels
            mount -t tmpfs run /run
            mount --bind {hosts} /etc/hosts
            echo ready
            exec sleep infinity
        """
        holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline() == "ready\n", "cannot make the node's mount namespace (root needed)"
        return holder

    def root(self, path: str) -> pathlib.Path:
        """`path` of the node's file system as seen from the test."""
        return pathlib.Path(f"/proc/{self._holder.pid}/root{path}")

    def set_hosts(self, names: dict) -> None:
        """In place: the file is bind-mounted."""
        (self.directory / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in names.items()))

    def make_channel(self, channel: int, major: int | None = None, mode: int = 0o666) -> None:
        self.make_device(f"/dev/nvidia-caps-imex-channels/channel{channel}", major or self.major, channel, mode)

    def make_device(self, path: str, major: int, minor: int, mode: int = 0o666) -> None:
        self.run(["mknod", "-m", f"{mode:o}", path, "c", str(major), str(minor)], check=True)

    # --- programs ---
    def argv(self, argv: list, cgroup: pathlib.Path | None = None) -> list:
        enter = ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", f"--wd={self.directory}"]
        if cgroup:
            # Joined by the shell that becomes the program.
            procs = f"/proc/{os.getpid()}/root{cgroup}/cgroup.procs"
            enter = ["sh", "-c", f'echo 0 > {procs}; exec "$@"', "sh", *enter]
        return [*enter, *map(str, argv)]

    def env(self, extra: dict | None = None) -> dict:
        return {**os.environ, "MNNVL_DIR": str(self.directory), **(extra or {})}

    def run(self, argv: list, check: bool = False, cgroup=None, timeout: float = 30) -> subprocess.CompletedProcess:
        result = subprocess.run(self.argv(argv, cgroup), env=self.env(), stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=timeout)
        assert not check or result.returncode == 0, result.stderr
        return result

    def start(self, argv: list, name: str, cgroup=None, env: dict | None = None) -> Program:
        self._count += 1
        program = Program(self.argv(argv, cgroup), self.directory, f"{name}-{self._count}", self.env(env))
        self.world.programs.append(program)
        return program

    def start_kernel(self) -> Program:
        # What a dead one left must not look like the new one's.
        (self.directory / "kernel.sock").unlink(missing_ok=True)
        self.kernel = self.start([self.world.bin / "mnnvl-kernel", "--dir", self.directory, "--major", self.major,
                                  "--caps-major", self.caps_major], "kernel")
        eventually(lambda: (self.directory / "kernel.sock").exists() or self.kernel._ended(), what="kernel model")
        return self.kernel

    def mnnvl(self, *arguments, cgroup=None) -> subprocess.CompletedProcess:
        return self.run([self.world.bin / "mnnvl", *arguments], cgroup=cgroup)

    def start_mnnvl(self, *arguments, cgroup=None) -> Program:
        return self.start([self.world.bin / "mnnvl", *arguments], "mnnvl", cgroup=cgroup)

    def config(self, **keys) -> pathlib.Path:
        """Writes config.cfg as the driver would for a shared domain; `keys` override or, with None, remove."""
        values = {
            "LOG_FILE_NAME": "", "LOG_APPEND_TO_LOG": 0, "DAEMONIZE": 0, "BIND_INTERFACE_IP": self.ip,
            "SERVER_PORT": PEER_PORT, "IMEX_NODE_CONFIG_FILE": self.directory / "nodes.cfg",
            "IMEX_WAIT_FOR_QUORUM": "NONE", "IMEX_CMD_ENABLED": 1, "IMEX_CMD_BIND_INTERFACE_IP": self.ip,
            "IMEX_CMD_PORT": COMMAND_PORT, **keys}
        path = self.directory / "config.cfg"
        path.write_text("# a comment\n" + "".join(f"{k}={v}\n" for k, v in values.items() if v is not None))
        return path

    def start_imex(self, nodes: list, *arguments, **keys) -> Program:
        """nvidia-imex with the given node map, not waiting for it."""
        (self.directory / "nodes.cfg").write_text("".join(f"{entry}\n" for entry in nodes))
        self.imex = self.start([self.world.bin / "nvidia-imex", "-c", self.config(**keys), *arguments], "imex")
        return self.imex

    def ctl(self, *arguments) -> subprocess.CompletedProcess:
        return self.run([self.world.bin / "nvidia-imex-ctl", "-c", self.directory / "config.cfg", *arguments])

    def state(self) -> str:
        return self.ctl("-q").stdout.strip()

    def wait_ready(self) -> None:
        eventually(lambda: self.state() == "READY" or self.imex._ended(), what="READY")

    def domain(self) -> dict:
        return json.loads(self.ctl("-N", "-j").stdout)

    def connection(self, to: int) -> str:
        """Status of this node's own connection to node `to`, by node ID = index."""
        return self.domain()["nodes"][str(self.index)]["connections"][str(to)]["status"]

    def _inhabitants(self) -> list[int]:
        """Processes in this node's mount namespace: all of this test's making, also those that became daemons."""
        own = os.readlink(f"/proc/{self._holder.pid}/ns/mnt")
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.readlink(entry / "ns/mnt") == own:
                    found.append(int(entry.name))
        return found

    def close(self) -> None:
        for pid in self._inhabitants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._holder.wait()
        self._holder.stdout.close()


class World:
    def __init__(self, directory: pathlib.Path, binaries: pathlib.Path):
        self.directory, self.bin = directory, binaries
        # A network of its own, so that tests running at the same time do not meet.
        tag = uuid.uuid4().int
        self.network = f"127.{2 + tag % 250}.{(tag >> 16) % 250}"
        self.nodes: list[Node] = []
        self.programs: list[Program] = []
        self._cgroups: list[pathlib.Path] = []

    def node(self, kernel: bool = True, capability: bool = True) -> Node:
        node = Node(self, len(self.nodes))
        self.nodes.append(node)
        if capability:
            node.make_device(CAPABILITY, node.caps_major, 3, 0o400)
        if kernel:
            node.start_kernel()
        return node

    def domain(self, count: int, channel: int | None = 5, **keys) -> list[Node]:
        """`count` nodes in one IMEX domain, all READY and connected."""
        nodes = [self.node() for _ in range(count)]
        entries = [node.ip for node in nodes]
        for node in nodes:
            if channel is not None:
                node.make_channel(channel)
            node.start_imex(entries, **keys)
        for node in nodes:
            node.wait_ready()
        eventually(lambda: nodes[0].domain()["status"] == "UP", what="domain UP")
        return nodes

    def device_cgroup(self, *allowed: str) -> pathlib.Path:
        """A device cgroup (v1) as a container runtime makes it: everything refused but mknod and `allowed`."""
        path = pathlib.Path("/sys/fs/cgroup/devices") / f"mnnvl-test-{uuid.uuid4().hex[:12]}"
        path.mkdir()
        self._cgroups.append(path)
        (path / "devices.deny").write_text("a")
        for rule in ("c *:* m", "b *:* m", "c 1:3 rwm", "c 1:9 rwm", *allowed):
            (path / "devices.allow").write_text(rule)
        return path

    def close(self) -> None:
        for program in reversed(self.programs):
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.stop()
        for node in self.nodes:
            node.close()
        for path in self._cgroups:
            eventually(lambda p=path: self._remove(p), what=f"removal of {path}")
        shutil.rmtree(self.directory, ignore_errors=True)

    @staticmethod
    def _remove(path: pathlib.Path) -> bool:
        with contextlib.suppress(OSError):
            path.rmdir()
        return not path.exists()


__all__ = ["World", "Node", "Program", "eventually", "signal"]
