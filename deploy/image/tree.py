"""Writes the entries of a layer as files, for image builders that want a folder."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path

from lab import oci


def write_tree(root: Path, entries: Iterable[oci.Entry]) -> None:
    """Fills `root`, which must not hold any of the entries yet. Owners are not set: an image builder sets its own."""
    for entry in sorted(entries, key=lambda entry: entry.path):
        target = root / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == tarfile.SYMTYPE:
            target.symlink_to(entry.target)
        elif entry.kind == tarfile.DIRTYPE:
            target.mkdir(exist_ok=True)
            target.chmod(entry.mode)
        else:
            target.write_bytes(entry.content.read_bytes() if isinstance(entry.content, Path) else entry.content)
            target.chmod(entry.mode)
