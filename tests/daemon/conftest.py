"""compute-domain-daemon with the real emulator programs. Programs: $DAEMON and $EMULATOR_DIR, else those of build/release."""

import os
import pathlib
import sys
import tempfile

import pytest

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tests/emulator"))
sys.path.insert(0, os.path.dirname(__file__))
from daemon_node import Clique  # noqa: E402


def program(variable: str, default: str) -> pathlib.Path:
    path = pathlib.Path(os.environ.get(variable, CHECKOUT / default)).absolute()
    assert path.exists(), f"{path} is missing: build it or set {variable}"
    return path


@pytest.fixture
def clique():
    if os.geteuid() != 0:
        pytest.skip("mount namespaces and device nodes need root")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="imex-daemon-test-"))
    directory.chmod(0o755)
    clique = Clique(directory, program("EMULATOR_DIR", "build/release/emulator"),
                    program("DAEMON", "build/release/bin/compute-domain-daemon"))
    yield clique
    clique.close()
