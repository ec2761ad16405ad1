"""Container images of the lab: the test image, and imports into nodes."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lab import oci
from lab.errors import LabError
from lab.namespaces import Namespaces

BUSYBOX = Path("/bin/busybox")
BUSYBOX_IMAGE = "localhost/busybox:lab"
# It idles by default, which is all that a sandbox container has to do.
PAUSE_IMAGE = BUSYBOX_IMAGE

# PID 1 takes no default action on signals: without the trap a pod that only
# waits would sit out its whole grace period.
IDLE = "trap 'exit 0' TERM INT; sleep infinity & wait"


def write_busybox(out: Path) -> oci.Archive:
    """The test image: Debian's static busybox, its commands, nothing else."""
    listing = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        raise LabError("it does not run; install busybox-static", component=str(BUSYBOX))
    commands = sorted(set(listing.stdout.split()) - {"busybox"})
    layer = [oci.file("/bin/busybox", BUSYBOX, 0o755), oci.directory("/tmp", 0o1777)]
    layer += [oci.symlink(f"/bin/{command}", "busybox") for command in commands]
    config = oci.ImageConfig(entrypoint=["/bin/sh", "-c", IDLE], env={"PATH": "/bin"})
    return oci.write_archive(out, BUSYBOX_IMAGE, [layer], config, architecture=architecture())


def architecture() -> str:
    """The machine's architecture in the words of OCI."""
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True)
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine.stdout.strip(), "amd64")


@dataclass(frozen=True)
class Images:
    """The archives that every node of a lab gets, present and future ones."""

    folder: Path

    def add(self, archive: Path) -> Path:
        """Keeps a copy, by image name: a newer one of the same name replaces it."""
        name = image_name(archive)
        target = self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.tar"
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(".new")
        shutil.copyfile(archive, fresh)
        fresh.rename(target)
        return target

    def archives(self) -> list[Path]:
        return sorted(self.folder.glob("*.tar"))


def image_name(archive: Path) -> str:
    """The name that the archive's image gets in a node."""
    try:
        with tarfile.open(archive) as tar:
            member = tar.extractfile("index.json")
            if member is None:
                raise KeyError("index.json")
            index = json.load(member)
        return str(index["manifests"][0]["annotations"]["io.containerd.image.name"])
    except (OSError, tarfile.TarError, KeyError, IndexError, ValueError) as error:
        raise LabError(f"{archive} is no OCI archive with an image name: {error}") from error


@dataclass(frozen=True)
class ImageStore:
    """The containerd of one running node.

    `marks` remembers on the node's disk which content an image name has there, so
    that repeating an import costs nothing.
    """

    node: str
    inside: Namespaces
    programs: Path
    marks: Path

    def add(self, archive: Path) -> None:
        """Puts an archive's image there, under the name that it carries."""
        content = hashlib.sha256(archive.read_bytes()).hexdigest()
        mark = self.marks / hashlib.sha256(image_name(archive).encode()).hexdigest()[:16]
        if mark.exists() and mark.read_text() == content:
            return
        with archive.open("rb") as stream:
            self._ctr("import", "-", stdin=stream)
        self.marks.mkdir(parents=True, exist_ok=True)
        mark.write_text(content)

    def _ctr(self, *arguments: str, stdin: IO[bytes] | None = None) -> None:
        program = str(self.programs / "ctr")
        command = [*self.inside.enter(), program, "--namespace", "k8s.io", "images", *arguments]
        done = subprocess.run(
            command,
            stdin=stdin or subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            message = f"ctr images {' '.join(arguments)}: {done.stderr.strip()}"
            raise LabError(message, component=self.node)
