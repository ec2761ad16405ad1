"""compute-domain-kubelet-plugin as a process: what keeps it from starting. Program: $PLUGIN, else that of build/release."""

import json
import os
import pathlib
import socket
import subprocess
import tempfile

import pytest

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("PLUGIN", CHECKOUT / "build/release/bin/compute-domain-kubelet-plugin")).absolute()


@pytest.fixture
def directory():
    """With a path that leaves room for the names of sockets."""
    with tempfile.TemporaryDirectory(prefix="plugin-") as path:
        yield pathlib.Path(path)


@pytest.fixture
def taken_port():
    with socket.create_server(("::", 0), family=socket.AF_INET6) as holder:
        yield holder.getsockname()[1]


def test_a_taken_health_port_ends_it_with_one_reason_and_nothing_written(directory, taken_port):
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}}],
        "users": [{"name": "test", "user": {"token": "none"}}]}))
    state = directory / "state"
    ended = subprocess.run(
        [PROGRAM, "--node-name=node-1", "--namespace=driver", f"--kubeconfig={kubeconfig}", f"--health-port={taken_port}",
         f"--registry-dir={state}/registry", f"--plugin-dir={state}/plugin", f"--cdi-dir={state}/cdi"],
        capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 1
    [line] = [json.loads(text) for text in ended.stderr.splitlines()]
    assert "--health-port" in line["msg"] and str(taken_port) in line["error"] and "Address already in use" in line["error"]
    assert not state.exists()
