"""`python -m bench.image`: the image that every pod of the bench runs, from the release build."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.noop import IMAGE, PROGRAM
from bench.pods import STAMP
from deploy.image import elf
from deploy.image.contents import ARCHITECTURES, CHECKOUT
from lab import images, oci

OUT = CHECKOUT / "build" / "image" / "computedomain-bench.tar"


def write(build: Path, out: Path) -> oci.Archive:
    architecture = ARCHITECTURES[images.architecture()]
    programs = {STAMP: build / "bench" / "stamp", PROGRAM: build / "bench" / "noop-driver"}
    needed = elf.closure(programs.values(), [], architecture.library_folders)
    layer = [oci.file(path, source, 0o755) for path, source in (programs | needed.loaders).items()]
    layer += [oci.file(f"/usr/lib/{architecture.triplet}/{name}", library) for name, library in needed.libraries.items()]
    return oci.write_archive(out, IMAGE, [layer], oci.ImageConfig(entrypoint=[STAMP]), architecture=architecture.name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.image", description=__doc__)
    parser.add_argument("--build", type=Path, default=CHECKOUT / "build" / "release")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    archive = write(arguments.build, arguments.out)
    print(f"{IMAGE}: {arguments.out}, {archive.compressed_bytes / 1e6:.1f} MB compressed")


if __name__ == "__main__":
    main()
