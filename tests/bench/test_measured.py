"""What is read from an image archive, from /proc and from the driver's objects."""

import os
from pathlib import Path

import pytest

from bench import sizes, usage
from bench.domains import fully_connected
from bench.errors import BenchError
from bench.gangs import claims_in_use, were_held
from lab import oci


def test_image_sizes_count_packed_layers_all_files_and_the_programs(tmp_path):
    first = [oci.file("/usr/bin/tool", os.urandom(1000), 0o755), oci.symlink("/usr/bin/alias", "tool")]
    second = [oci.file("/usr/lib/libx.so", bytes(5000))]
    written = oci.write_archive(tmp_path / "image.tar", "localhost/x:dev", [first, second], oci.ImageConfig())
    measured = sizes.measure(tmp_path / "image.tar")
    assert measured.compressed == written.compressed_bytes
    assert measured.unpacked == 6000
    assert measured.programs == {"tool": 1000}


def make_process(proc: Path, pid: int, program: str, cgroup: str) -> None:
    process = proc / str(pid)
    process.mkdir(parents=True)
    (process / "exe").symlink_to(f"/usr/bin/{program}")
    (process / "cgroup").write_text(f"4:memory:{cgroup}\n1:name=systemd:{cgroup}\n")
    (process / "status").write_text(f"Name:\t{program[:15]}\nVmRSS:\t   8000 kB\nRssAnon:\t   500 kB\nThreads:\t7\n")
    (process / "stat").write_text(f"{pid} (a (b) c) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 7 0 2000 0 0 0\n")


def pod(name: str, container: str) -> dict:
    return {"metadata": {"name": name}, "spec": {"nodeName": "node-1"},
            "status": {"containerStatuses": [{"containerID": f"containerd://{container}", "restartCount": 2}]}}


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "uptime").write_text("100.00 200.00\n")
    make_process(tmp_path, 10, "compute-domain-daemon", "/lab/nodes/node-1/abc")
    make_process(tmp_path, 11, "nvidia-imex", "/lab/nodes/node-1/abc")
    make_process(tmp_path, 12, "stranger", "/lab/nodes/node-2/def")
    return tmp_path


def test_each_process_of_a_container_is_measured_by_itself(proc):
    found = sorted(usage.of_pods([pod("daemon-x", "abc")], proc), key=lambda process: process.program)
    assert [process.program for process in found] == ["compute-domain-daemon", "nvidia-imex"]
    daemon = found[0]
    ticks = os.sysconf("SC_CLK_TCK")
    assert (daemon.resident_bytes, daemon.anonymous_bytes, daemon.threads, daemon.restarts) == (8_192_000, 512_000, 7, 2)
    assert (daemon.cpu_seconds, daemon.age_seconds) == (200 / ticks, 100 - 2000 / ticks)
    assert (daemon.pod, daemon.node) == ("daemon-x", "node-1")


def test_a_pod_without_process_is_an_error(proc):
    with pytest.raises(BenchError, match="daemon-y"):
        usage.of_pods([pod("daemon-x", "abc"), pod("daemon-y", "gone")], proc)


def imex_node(index, connected, state="Ready"):
    return {"spec": {"domain": {"index": index}} if index is not None else {}, "status": {"daemon": {"state": state, "connected": connected}}}


@pytest.mark.parametrize(("nodes", "expected"), [
    ([imex_node(0, [3]), imex_node(3, [0])], True),
    ([imex_node(0, [0, 3]), imex_node(3, [0, 3])], True),  # connected with itself or not
    ([imex_node(0, [])], True),  # alone
    ([imex_node(0, [3]), imex_node(3, [])], False),  # one direction
    ([imex_node(0, [3]), imex_node(3, [0], state="NotReady")], False),
    ([imex_node(0, [1]), imex_node(None, [0])], False),  # no slot yet
])
def test_fully_connected_means_every_pair_in_both_directions(nodes, expected):
    assert fully_connected(nodes) == expected


def test_a_gang_is_scheduled_when_the_last_claim_is_reserved():
    claims = {"a": {"status": {"reservedFor": [{"name": "one"}]}}, "b": {}}
    assert not claims_in_use(claims, ["one", "two"])
    claims["b"] = {"status": {"reservedFor": [{"name": "two"}]}}
    assert claims_in_use(claims, ["one", "two"])


def test_a_first_wait_is_over_when_the_pod_says_that_it_is_held():
    def event(pod, message):
        return {"involvedObject": {"name": pod}, "message": message}

    events = {"1": event("one", "its pods are held until it has formed"), "2": event("two", "Pulled")}
    assert were_held(events, ["one"]) and not were_held(events, ["one", "two"])
