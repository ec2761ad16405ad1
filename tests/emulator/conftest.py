"""Where the emulator's programs are: $EMULATOR_DIR, or build/release/emulator of this checkout."""

import os
import pathlib
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from world import World  # noqa: E402


@pytest.fixture(scope="session")
def emulator_dir() -> pathlib.Path:
    checkout = pathlib.Path(__file__).resolve().parents[2]
    directory = pathlib.Path(os.environ.get("EMULATOR_DIR", checkout / "build/release/emulator")).absolute()
    assert (directory / "nvidia-imex").exists(), f"no emulator in {directory}: build it or set EMULATOR_DIR"
    return directory


@pytest.fixture
def world(emulator_dir):
    if os.geteuid() != 0:
        pytest.skip("mount namespaces, device nodes and device cgroups need root")
    # Not tmp_path: other users than root must get at the kernel's socket.
    directory = pathlib.Path(tempfile.mkdtemp(prefix="mnnvl-test-"))
    directory.chmod(0o755)
    world = World(directory, emulator_dir)
    yield world
    world.close()


@pytest.fixture
def device_cgroups() -> None:
    if not os.path.exists("/sys/fs/cgroup/devices/devices.allow"):
        pytest.skip("no cgroup v1 devices hierarchy here; with v2 only a container runtime can set device rules")
