"""Turns files.txt and a build into the entries of the image's one layer."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.image import elf
from lab import oci

CHECKOUT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("files.txt")


@dataclass(frozen=True)
class Architecture:
    name: str  # as OCI says it
    triplet: str  # as Debian says it
    machine: str  # as readelf says it

    @property
    def library_folders(self) -> list[Path]:
        return [Path("/lib") / self.triplet, Path("/usr/lib") / self.triplet]


ARCHITECTURES = {
    "amd64": Architecture("amd64", "x86_64-linux-gnu", "Advanced Micro Devices X86-64"),
    "arm64": Architecture("arm64", "aarch64-linux-gnu", "AArch64"),
}


class ListError(Exception):
    """A line of the list of files that cannot be read, or names what does not exist."""


@dataclass
class FileList:
    programs: list[str]
    libraries: list[str]
    files: list[tuple[Path, str]]


def read_list(path: Path = LIST) -> FileList:
    found = FileList([], [], [])
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match line.partition("#")[0].split():
            case []:
                pass
            case ["program", name]:
                found.programs.append(name)
            case ["library", name]:
                found.libraries.append(name)
            case ["file", source, target]:
                found.files.append((CHECKOUT / source, target))
            case _:
                raise ListError(f"{path.name}:{number}: {line.strip()!r} is no `program NAME`, `library SONAME` or `file SOURCE TARGET`")
    return found


def entries(build: Path, architecture: Architecture, scratch: Path, files: FileList) -> list[oci.Entry]:
    """The layer's entries. Stripped programs are written to `scratch`, which must outlive them."""
    programs = {name: build / "bin" / name for name in files.programs}
    for name, path in programs.items():
        if not path.is_file():
            raise ListError(f"program {name}: {path} does not exist; build it first")
        if elf.machine(path) != architecture.machine:
            raise ListError(f"program {name}: {path} is for {elf.machine(path)}, not for {architecture.machine}")
    found = elf.closure(programs.values(), files.libraries, architecture.library_folders)
    stripped = {name: _stripped(path, architecture, scratch) for name, path in programs.items()}
    layer = [oci.file(f"/usr/bin/{name}", path, 0o755) for name, path in stripped.items()]
    layer += [oci.file(target, path, 0o755) for target, path in found.loaders.items()]
    layer += [oci.file(f"/usr/lib/{architecture.triplet}/{name}", path) for name, path in found.libraries.items()]
    layer += [oci.file(target, source) for source, target in files.files]
    # A read-only root can get no mount points later: the places a container runtime or the chart mounts to.
    layer += [oci.directory(path) for path in ("/dev", "/proc", "/sys", "/run", "/imexd")]
    layer.append(oci.symlink("/var/run", "/run"))
    layer.append(oci.directory("/tmp", 0o1777))
    return layer


def _stripped(program: Path, architecture: Architecture, scratch: Path) -> Path:
    target = scratch / program.name
    done = subprocess.run([f"{architecture.triplet}-strip", "--strip-all", "-o", str(target), str(program)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ListError(f"program {program.name}: {done.stderr.strip()}")
    return target
