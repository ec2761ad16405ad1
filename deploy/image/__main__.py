"""`python -m deploy.image`: writes the driver's container image, or the tree it consists of."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from pathlib import Path

from deploy.image.contents import ARCHITECTURES, CHECKOUT, ListError, entries, read_list
from deploy.image.elf import ElfError
from deploy.image.tree import write_tree
from lab import oci

REFERENCE = "localhost/computedomain-driver:dev"
# What a node pulls before its first pod starts, and what it keeps.
COMPRESSED_LIMIT = 25_000_000
UNPACKED_LIMIT = 60_000_000
HOST = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "amd64")


def main() -> int:
    arguments = _arguments()
    architecture = ARCHITECTURES[arguments.architecture]
    with tempfile.TemporaryDirectory() as scratch:
        try:
            layer = entries(arguments.build, architecture, Path(scratch), read_list())
        except (ListError, ElfError) as error:
            print(f"image: {error}", file=sys.stderr)
            return 1
        if arguments.tree:
            write_tree(arguments.tree, layer)
            return 0
        out = arguments.out or CHECKOUT / "build" / "image" / f"computedomain-driver-{architecture.name}.tar"
        config = oci.ImageConfig(user="65532:65532", labels={"org.opencontainers.image.licenses": "Apache-2.0"})
        written = oci.write_archive(out, REFERENCE, [layer], config, architecture=architecture.name)
    print(f"image: {out} holds {REFERENCE} for linux/{architecture.name}, {written.digest}\n"
          f"image: {written.compressed_bytes / 1e6:.1f} MB compressed (limit {COMPRESSED_LIMIT / 1e6:.0f}), "
          f"{written.unpacked_bytes / 1e6:.1f} MB unpacked (limit {UNPACKED_LIMIT / 1e6:.0f})")
    if written.compressed_bytes > COMPRESSED_LIMIT or written.unpacked_bytes > UNPACKED_LIMIT:
        print("image: too large; `tar -tvf` of its layer shows what grew", file=sys.stderr)
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="build folder whose bin/ holds the programs")
    parser.add_argument("--architecture", choices=sorted(ARCHITECTURES), default=HOST)
    parser.add_argument("--out", type=Path, help="the archive (default: build/image/computedomain-driver-ARCHITECTURE.tar)")
    parser.add_argument("--tree", type=Path, help="write the image's files below this folder instead of an archive")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
