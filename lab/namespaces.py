"""Linux namespaces: a holder process keeps each set alive, others enter it.

Nothing is pinned in the file system: when a set's processes are gone, so are
its links, routes, rules and mounts.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SHARED = 0x100000

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _check(result, f"mount {source} on {target}")


def bind(source: Path | str, target: Path | str) -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    mount(str(source), str(target), flags=MS_BIND | MS_REC)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


@dataclass(frozen=True)
class Namespaces:
    """The namespaces of one holder process."""

    holder: int
    whole_node: bool  # also its mounts and host name, not only its network

    def enter(self) -> list[str]:
        """The command prefix that runs a program inside."""
        kinds = ["--net", "--mount", "--uts"] if self.whole_node else ["--net"]
        return ["nsenter", "--target", str(self.holder), *kinds, "--"]

    def run(
        self, command: Sequence[str], *, component: str, env: Mapping[str, str] | None = None
    ) -> str:
        """Runs a short command inside; returns its output, raises with it."""
        done = subprocess.run(
            [*self.enter(), *command],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=None if env is None else dict(env),
            check=False,
        )
        if done.returncode != 0:
            output = (done.stdout + done.stderr).strip()
            raise LabError(f"`{' '.join(command)}` failed: {output}", component=component)
        return done.stdout

    def connect(self, address: tuple[str, int], seconds: float) -> socket.socket:
        """A TCP connection made inside; it stays there wherever it is used.

        A thread enters the network namespace, so that this process does not.
        """
        result: list[socket.socket | OSError] = []

        def dial() -> None:
            try:
                with open(f"/proc/{self.holder}/ns/net", "rb") as namespace:
                    _check(_libc.setns(namespace.fileno(), CLONE_NEWNET), "setns")
                result.append(socket.create_connection(address, timeout=seconds))
            except OSError as error:
                result.append(error)

        thread = threading.Thread(target=dial)
        thread.start()
        thread.join()
        if isinstance(result[0], OSError):
            raise result[0]
        return result[0]
