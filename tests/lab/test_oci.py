"""The image writer: reproducible bytes and a layout that runtimes read."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from lab import oci
from lab.images import image_name

REFERENCE = "localhost/app:dev"
CONFIG = oci.ImageConfig(entrypoint=["/app"], env={"B": "2", "A": "1"}, user="65532:65532")


def blob(archive: Path, digest: str) -> bytes:
    with tarfile.open(archive) as tar:
        stream = tar.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}")
        assert stream is not None
        content = stream.read()
    assert "sha256:" + hashlib.sha256(content).hexdigest() == digest
    return content


def manifest(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as tar:
        stream = tar.extractfile("index.json")
        assert stream is not None
        index = json.load(stream)
    found: dict[str, Any] = json.loads(blob(archive, index["manifests"][0]["digest"]))
    return found


def layer(archive: Path, number: int = 0) -> tarfile.TarFile:
    packed = blob(archive, manifest(archive)["layers"][number]["digest"])
    return tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed)))


def test_same_input_gives_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    entries = [oci.file("/b", b"2"), oci.symlink("/a/link", "../b"), oci.directory("/tmp", 0o1777)]
    one, two = tmp_path / "one.tar", tmp_path / "two.tar"
    first = oci.write_archive(one, REFERENCE, [entries], CONFIG)
    second = oci.write_archive(two, REFERENCE, [entries[::-1]], CONFIG)
    assert first == second
    assert one.read_bytes() == two.read_bytes()


def test_file_on_disk_counts_by_content_alone(tmp_path: Path) -> None:
    source = tmp_path / "app"
    source.write_bytes(b"program")
    source.chmod(0o600)
    from_disk = oci.write_archive(
        tmp_path / "1.tar", REFERENCE, [[oci.file("app", source, 0o755)]], CONFIG
    )
    from_memory = oci.write_archive(
        tmp_path / "2.tar", REFERENCE, [[oci.file("/app", b"program", 0o755)]], CONFIG
    )
    assert from_disk.digest == from_memory.digest


def test_layer_holds_modes_owners_links_and_missing_parents(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    entries = [
        oci.file("/usr/bin/app", b"x", 0o755),
        oci.file("/etc/app.conf", b"y", 0o640, uid=7, gid=8),
        oci.symlink("/app", "usr/bin/app"),
    ]
    oci.write_archive(archive, REFERENCE, [entries], CONFIG)
    members = {member.name: member for member in layer(archive).getmembers()}
    assert list(members) == ["app", "etc", "etc/app.conf", "usr", "usr/bin", "usr/bin/app"]
    assert members["usr/bin/app"].mode == 0o755
    assert (members["etc/app.conf"].uid, members["etc/app.conf"].gid) == (7, 8)
    assert members["app"].issym() and members["app"].linkname == "usr/bin/app"
    assert members["usr/bin"].isdir() and members["usr/bin"].mode == 0o755
    assert {member.mtime for member in members.values()} == {0}


def test_config_says_what_to_run_where(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    layers = [[oci.file("/app", b"1")], [oci.file("/data", b"2")]]
    oci.write_archive(archive, REFERENCE, layers, CONFIG, architecture="arm64")
    config = json.loads(blob(archive, manifest(archive)["config"]["digest"]))
    assert (config["architecture"], config["os"]) == ("arm64", "linux")
    assert config["config"]["Entrypoint"] == ["/app"]
    assert config["config"]["Env"] == ["B=2", "A=1"]
    assert config["config"]["User"] == "65532:65532"
    plain = [
        gzip.decompress(blob(archive, part["digest"])) for part in manifest(archive)["layers"]
    ]
    wanted = ["sha256:" + hashlib.sha256(content).hexdigest() for content in plain]
    assert config["rootfs"]["diff_ids"] == wanted


def test_image_has_the_name_it_was_given(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    oci.write_archive(archive, REFERENCE, [[oci.file("/app", b"1")]], CONFIG)
    assert image_name(archive) == REFERENCE


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (lambda: [oci.file("/a", b""), oci.file("a", b"")], "'a' twice"),
        (lambda: [oci.file("/a/../../b", b"")], "holds '..'"),
    ],
)
def test_bad_layer_is_refused_and_nothing_written(tmp_path: Path, entries: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        oci.write_archive(tmp_path / "image.tar", REFERENCE, [entries()], CONFIG)
    assert list(tmp_path.iterdir()) == []
