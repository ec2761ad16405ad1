"""Sizes of a container image and of the programs in it, from its OCI archive."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ImageSize:
    """All in bytes. `compressed` is what a node pulls, `unpacked` what all files take, `programs` those below /usr/bin."""

    compressed: int
    unpacked: int
    programs: dict[str, int]


def measure(archive: Path) -> ImageSize:
    compressed = unpacked = 0
    programs: dict[str, int] = {}
    with tarfile.open(archive) as layout:
        manifest = _json(layout, json.loads(_read(layout, "index.json"))["manifests"][0]["digest"])
        for layer in manifest["layers"]:
            packed = _blob(layout, layer["digest"])
            compressed += len(packed)
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as files:
                members = [member for member in files if member.isfile()]
            unpacked += sum(member.size for member in members)
            programs |= {member.name.rpartition("/")[2]: member.size for member in members if member.name.startswith("usr/bin/")}
    return ImageSize(compressed, unpacked, dict(sorted(programs.items())))


def _json(layout: tarfile.TarFile, digest: str) -> dict:
    return json.loads(_blob(layout, digest))


def _blob(layout: tarfile.TarFile, digest: str) -> bytes:
    return _read(layout, f"blobs/{digest.replace(':', '/')}")


def _read(layout: tarfile.TarFile, name: str) -> bytes:
    member = layout.extractfile(name)
    if member is None:
        raise ValueError(f"{name} of the image archive is no file")
    return member.read()
