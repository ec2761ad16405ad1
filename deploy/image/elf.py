"""Which shared libraries a program needs, found without running it: it may be for another processor."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


class ElfError(Exception):
    """A file that is no ELF file, or a library that is nowhere."""


@dataclass(frozen=True)
class Closure:
    loaders: dict[str, Path]  # path of the interpreter as the programs name it → file here
    libraries: dict[str, Path]  # soname → file here


@dataclass(frozen=True)
class _Headers:
    interpreter: str
    needed: tuple[str, ...]
    machine: str


def closure(programs: Iterable[Path], sonames: Iterable[str], search: Sequence[Path]) -> Closure:
    """Everything `programs` and the libraries `sonames` load at start, looked up in the folders `search`."""
    found = Closure({}, {})
    waiting: list[tuple[str, str]] = [(name, "the list of files") for name in sonames]
    for program in programs:
        headers = _headers(program)
        waiting += [(name, program.name) for name in headers.needed]
        if headers.interpreter:
            name = Path(headers.interpreter).name
            found.loaders[headers.interpreter] = _find(name, search, program.name)
    loaders = {Path(path).name for path in found.loaders}
    while waiting:
        name, wanted_by = waiting.pop()
        if name in found.libraries or name in loaders:
            continue
        found.libraries[name] = _find(name, search, wanted_by)
        waiting += [(needed, name) for needed in _headers(found.libraries[name]).needed]
    return found


def machine(path: Path) -> str:
    """The processor a file is for, in readelf's words."""
    return _headers(path).machine


def _find(name: str, search: Sequence[Path], wanted_by: str) -> Path:
    for folder in search:
        if (folder / name).is_file():
            return (folder / name).resolve()
    raise ElfError(f"{wanted_by} needs {name}, which is in none of {', '.join(map(str, search))}: install its package")


def _headers(path: Path) -> _Headers:
    done = subprocess.run(["readelf", "--file-header", "--dynamic", "--program-headers", "--wide", str(path)],
                          capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    machine_line = re.search(r"^\s*Machine:\s*(.+)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or machine_line is None:
        raise ElfError(f"{path} is no ELF file: {done.stderr.strip()}")
    interpreter = re.search(r"Requesting program interpreter: (.+?)\]", done.stdout)
    needed = re.findall(r"\(NEEDED\)\s+Shared library: \[(.+?)\]", done.stdout)
    return _Headers(interpreter.group(1) if interpreter else "", tuple(needed), machine_line.group(1).strip())
