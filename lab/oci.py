"""Writes container images: OCI layout archives, byte for byte reproducible.

An image is a list of layers, a layer is a list of entries:

    write_archive(
        Path("app.tar"), "localhost/app:dev",
        [[file("/usr/bin/app", Path("build/app"), 0o755), directory("/tmp", 0o1777)]],
        ImageConfig(entrypoint=["/usr/bin/app"], user="65532:65532"),
        architecture="arm64")

The same input gives the same bytes, hence the same digests: no time stamps, no
user names, entries sorted by path. Missing parent directories are added.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

MEDIA_INDEX = "application/vnd.oci.image.index.v1+json"
MEDIA_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
MEDIA_CONFIG = "application/vnd.oci.image.config.v1+json"
MEDIA_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True)
class Entry:
    """One path of a layer. Use `file`, `directory` or `symlink` to make it."""

    path: str
    kind: bytes
    mode: int
    content: bytes | Path = b""
    target: str = ""
    uid: int = 0
    gid: int = 0


def file(
    path: str, content: bytes | Path, mode: int = 0o644, *, uid: int = 0, gid: int = 0
) -> Entry:
    """A regular file with the given bytes, or the bytes of the given file."""
    return Entry(_clean(path), tarfile.REGTYPE, mode, content, uid=uid, gid=gid)


def directory(path: str, mode: int = 0o755, *, uid: int = 0, gid: int = 0) -> Entry:
    return Entry(_clean(path), tarfile.DIRTYPE, mode, uid=uid, gid=gid)


def symlink(path: str, target: str) -> Entry:
    return Entry(_clean(path), tarfile.SYMTYPE, 0o777, target=target)


@dataclass(frozen=True)
class ImageConfig:
    """What a container of the image runs, as the OCI image config says it."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    working_dir: str = "/"
    labels: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        pairs = {
            "Entrypoint": list(self.entrypoint),
            "Cmd": list(self.command),
            "Env": [f"{name}={value}" for name, value in self.env.items()],
            "User": self.user,
            "WorkingDir": self.working_dir,
            "Labels": dict(self.labels),
        }
        return {name: value for name, value in pairs.items() if value}


@dataclass(frozen=True)
class Archive:
    """What was written: for reports on size and for change detection."""

    digest: str
    compressed_bytes: int
    unpacked_bytes: int


def write_archive(
    out: Path,
    reference: str,
    layers: Sequence[Iterable[Entry]],
    config: ImageConfig,
    *,
    architecture: str = "amd64",
) -> Archive:
    """Writes the image as an OCI layout tar; replaces `out` in one step.

    `reference` is the full name that a container runtime stores it under, such
    as `localhost/app:dev`. Raises ValueError for a layer with two entries of
    one path and OSError for a file that cannot be read.
    """
    blobs: dict[str, bytes] = {}
    layer_descriptors = []
    diff_ids = []
    unpacked = 0
    for entries in layers:
        plain = _layer_tar(entries)
        packed = gzip.compress(plain, compresslevel=6, mtime=0)
        layer_descriptors.append(_blob(blobs, packed, MEDIA_LAYER))
        diff_ids.append("sha256:" + hashlib.sha256(plain).hexdigest())
        unpacked += len(plain)
    config_json = {
        "architecture": architecture,
        "os": "linux",
        "config": config.to_json(),
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MEDIA_MANIFEST,
        "config": _blob(blobs, _json(config_json), MEDIA_CONFIG),
        "layers": layer_descriptors,
    }
    descriptor = _blob(blobs, _json(manifest), MEDIA_MANIFEST)
    descriptor["platform"] = {"architecture": architecture, "os": "linux"}
    descriptor["annotations"] = {
        # containerd takes its name from the first, other tools the tag from the second.
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
    }
    index = {"schemaVersion": 2, "mediaType": MEDIA_INDEX, "manifests": [descriptor]}
    _write_layout(out, blobs, _json(index))
    compressed = sum(layer["size"] for layer in layer_descriptors)
    return Archive(descriptor["digest"], compressed, unpacked)


def _clean(path: str) -> str:
    """Layer paths are relative, without `..`: a layer never leaves its root."""
    parts = PurePosixPath(path).parts
    if ".." in parts:
        raise ValueError(f"path {path!r} of an image layer holds '..'")
    return str(PurePosixPath(*[part for part in parts if part != "/"]))


def _layer_tar(entries: Iterable[Entry]) -> bytes:
    by_path: dict[str, Entry] = {}
    for entry in entries:
        if entry.path in by_path:
            raise ValueError(f"image layer names {entry.path!r} twice")
        by_path[entry.path] = entry
    for path in list(by_path):
        for parent in PurePosixPath(path).parents:
            if str(parent) != ".":
                by_path.setdefault(str(parent), directory(str(parent)))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        # Sorted paths put each directory before what is in it.
        for path in sorted(by_path, key=lambda name: name.split("/")):
            _add(tar, by_path[path])
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    member = tarfile.TarInfo(entry.path)
    member.type = entry.kind
    member.mode = entry.mode
    member.uid, member.gid = entry.uid, entry.gid
    member.linkname = entry.target
    content = entry.content.read_bytes() if isinstance(entry.content, Path) else entry.content
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _blob(blobs: dict[str, bytes], content: bytes, media_type: str) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _write_layout(out: Path, blobs: Mapping[str, bytes], index: bytes) -> None:
    files = [file("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'), file("index.json", index)]
    files += [file(f"blobs/sha256/{digest}", content) for digest, content in blobs.items()]
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = out.with_name(f"{out.name}.{os.getpid()}.new")
    fresh.write_bytes(_layer_tar(files))
    fresh.rename(out)
