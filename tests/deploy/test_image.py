"""The container image: what is in it, that it runs, and how the builder takes wrong input."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.image import elf
from deploy.image.__main__ import COMPRESSED_LIMIT, HOST, REFERENCE, UNPACKED_LIMIT
from deploy.image.contents import ARCHITECTURES, CHECKOUT, ListError, entries, read_list

# `make test-arm64` sets it and runs the programs under qemu-user.
ARCHITECTURE = ARCHITECTURES[os.environ.get("CD_ARCHITECTURE", HOST)]
ARCHIVE = Path(os.environ.get("CD_IMAGE", CHECKOUT / "build" / "image" / f"computedomain-driver-{ARCHITECTURE.name}.tar"))
PROGRAMS = ["compute-domain-controller", "compute-domain-daemon", "compute-domain-kubelet-plugin", "compute-domain-webhook"]


# --- the image that `make image` wrote


class Image:
    def __init__(self, archive: Path) -> None:
        assert archive.exists(), f"no {archive}: run `make image`, or set CD_IMAGE"
        with tarfile.open(archive) as tar:
            def blob(digest: str) -> bytes:
                member = tar.extractfile("blobs/" + digest.replace(":", "/"))
                assert member is not None
                return member.read()

            index = tar.extractfile("index.json")
            assert index is not None
            (self.descriptor,) = json.load(index)["manifests"]
            manifest = json.loads(blob(self.descriptor["digest"]))
            self.config = json.loads(blob(manifest["config"]["digest"]))
            (layer,) = manifest["layers"]
            self.compressed = layer["size"]
            self.layer = gzip.decompress(blob(layer["digest"]))

    def members(self) -> list[tarfile.TarInfo]:
        with tarfile.open(fileobj=io.BytesIO(self.layer)) as tar:
            return tar.getmembers()


@pytest.fixture(scope="module")
def image() -> Image:
    return Image(ARCHIVE)


def test_it_is_named_and_labelled_for_its_platform(image: Image) -> None:
    assert image.descriptor["annotations"]["io.containerd.image.name"] == REFERENCE
    assert (image.config["os"], image.config["architecture"]) == ("linux", ARCHITECTURE.name)
    assert image.config["config"]["User"] == "65532:65532"


def test_it_keeps_its_size_budget(image: Image) -> None:
    assert image.compressed <= COMPRESSED_LIMIT
    assert len(image.layer) <= UNPACKED_LIMIT


def test_nothing_in_it_can_be_executed_but_our_programs(image: Image) -> None:
    executable = {m.name for m in image.members() if m.isfile() and m.mode & 0o111}
    loaders = {name for name in executable if Path(name).name.startswith("ld-linux")}
    assert executable - loaders == {f"usr/bin/{name}" for name in PROGRAMS}
    assert len(loaders) == 1
    assert not any(m.mode & 0o6000 for m in image.members()), "a set-uid file"


def test_nothing_in_it_is_writable_for_others(image: Image) -> None:
    assert [m.name for m in image.members() if m.mode & 0o022 and not m.issym()] == ["tmp"]


@pytest.fixture(scope="module")
def root(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    with tarfile.open(fileobj=io.BytesIO(image.layer)) as tar:
        tar.extractall(folder, filter="fully_trusted")
    return folder


def test_every_library_is_in_the_image(root: Path) -> None:
    programs = [root / "usr" / "bin" / name for name in PROGRAMS]
    folders = [root / "usr" / "lib" / ARCHITECTURE.triplet, *{path.parent for path in root.glob("lib*/ld-linux*")}]
    found = elf.closure(programs, [], folders)
    assert "libc.so.6" in found.libraries
    assert {elf.machine(path) for path in [*programs, *found.libraries.values()]} == {ARCHITECTURE.machine}


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_starts_with_nothing_but_the_image(root: Path, program: str) -> None:
    alone = ["unshare", "--map-root-user", f"--root={root}", f"/usr/bin/{program}"]
    foreign = ["qemu-aarch64", "-L", root, root / "usr" / "bin" / program]
    done = subprocess.run([*(alone if ARCHITECTURE.name == HOST else foreign), "--help"], capture_output=True, text=True, check=False, env={})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


# --- the builder


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A build folder whose three programs are one small program that needs libm."""
    folder = tmp_path_factory.mktemp("build")
    (folder / "bin").mkdir()
    source = folder / "main.c"
    source.write_text("#include <math.h>\nint main(int n, char **v) { (void)v; return (int)cos(n); }\n")
    for name in PROGRAMS:
        subprocess.run(["gcc", "-o", folder / "bin" / name, source, "-lm"], check=True)
    yield folder


def test_libraries_and_loader_come_along(build: Path, tmp_path: Path) -> None:
    paths = {e.path for e in entries(build, ARCHITECTURES[HOST], tmp_path, read_list())}
    triplet = ARCHITECTURES[HOST].triplet
    assert {f"usr/lib/{triplet}/libc.so.6", f"usr/lib/{triplet}/libm.so.6", "usr/bin/compute-domain-daemon", "etc/passwd"} <= paths
    (loader,) = elf.closure([build / "bin" / PROGRAMS[0]], [], ARCHITECTURES[HOST].library_folders).loaders
    assert loader.lstrip("/") in paths


def test_the_same_input_gives_the_same_bytes(build: Path, tmp_path: Path) -> None:
    for name in ("one.tar", "two.tar"):
        subprocess.run([sys.executable, "-m", "deploy.image", "--build", build, "--out", tmp_path / name], check=True, cwd=CHECKOUT)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_the_tree_for_the_dockerfile_holds_the_same_paths(build: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    subprocess.run([sys.executable, "-m", "deploy.image", "--build", build, "--tree", tree], check=True, cwd=CHECKOUT)
    listed = {e.path for e in entries(build, ARCHITECTURES[HOST], tmp_path, read_list())}
    assert all(os.path.lexists(tree / path) for path in listed)


def test_a_missing_program_is_named(build: Path, tmp_path: Path) -> None:
    files = read_list()
    files.programs.append("compute-domain-none")
    with pytest.raises(ListError, match="compute-domain-none.*does not exist; build it first"):
        entries(build, ARCHITECTURES[HOST], tmp_path, files)


def test_a_program_for_another_processor_is_refused(build: Path, tmp_path: Path) -> None:
    (other,) = ARCHITECTURES.keys() - {HOST}
    with pytest.raises(ListError, match=f"not for {ARCHITECTURES[other].machine}"):
        entries(build, ARCHITECTURES[other], tmp_path, read_list())


def test_a_missing_library_names_who_needs_it(build: Path, tmp_path: Path) -> None:
    with pytest.raises(elf.ElfError, match="compute-domain-daemon needs ld-linux.*install its package"):
        elf.closure([build / "bin" / "compute-domain-daemon"], [], [tmp_path])


@pytest.mark.parametrize("line", ["program", "library a b", "file only-source", "copy a b"])
def test_a_line_of_the_list_that_says_nothing_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "files.txt"
    path.write_text(f"# a comment\n{line}\n")
    with pytest.raises(ListError, match=r"files\.txt:2"):
        read_list(path)
