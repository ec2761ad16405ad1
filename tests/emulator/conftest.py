"""Where the emulator's programs are: $EMULATOR_DIR, or build/release/emulator of this checkout."""

import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def emulator_dir() -> pathlib.Path:
    checkout = pathlib.Path(__file__).resolve().parents[2]
    directory = pathlib.Path(os.environ.get("EMULATOR_DIR", checkout / "build/release/emulator"))
    assert (directory / "nvidia-imex").exists(), f"no emulator in {directory}: build it or set EMULATOR_DIR"
    return directory
