"""A whole lab, from nothing to nothing."""

from __future__ import annotations

import json
import stat
import subprocess
import time
from pathlib import Path

from lab.processes import Process
from tests.lab.machine import (
    IDENTITY,
    boot_id,
    create_pods,
    emulator_options,
    in_pod,
    kubectl,
    lab,
    majors,
    pod,
    pod_address,
    processes,
    traces,
)


def test_pods_of_two_nodes_and_the_api_reach_each_other(no_pods: None, tmp_path: Path) -> None:
    # The API's greeting to who speaks no TLS is answer enough.
    fetch = 'echo GET / | nc -w 5 "$KUBERNETES_SERVICE_HOST" "$KUBERNETES_SERVICE_PORT"'
    serve = ("httpd", "-f", "-p", "8080", "-h", "/etc")
    create_pods(tmp_path, pod("one", "node-1", *serve), pod("two", "node-2"))
    one = pod_address("one")
    assert in_pod("two", f"wget -q -O- http://{one}:8080/hostname").strip() == "one"
    assert "HTTPS server" in in_pod("two", fetch)
    # The way of the API server to a webhook.
    fetched = lab("exec", "busybox", "wget", "-q", "-O-", f"http://{one}:8080/hostname")
    assert fetched.stdout.strip() == "one"


def test_programs_in_the_control_planes_network_find_the_cluster(running: None) -> None:
    done = lab("exec", "sh", "-c", 'kubectl --kubeconfig "$KUBECONFIG" get --raw /readyz')
    assert done.stdout == "ok"
    assert lab("exec", "sh", "-c", "exit 7", check=False).returncode == 7


def test_clients_keep_what_they_cache_in_the_lab(running: None) -> None:
    kubectl("get", "nodes")
    assert (IDENTITY.state / "control" / "clients" / "kubectl" / "discovery").is_dir()


def test_the_machines_network_does_not_reach_the_cluster(running: None) -> None:
    route = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    assert "10.99." not in route and "10.244." not in route


def test_second_up_is_quick_and_changes_nothing(running: None) -> None:
    old = processes()
    began = time.monotonic()
    lab("up")
    assert time.monotonic() - began < 10
    assert processes() == old and "-" not in old.values()


def test_what_died_is_started_again_by_up(running: None) -> None:
    old = processes()
    lab("component", "kill", "kube-scheduler")
    lab("component", "kill", "node-2/kubelet")
    lab("up")
    new = processes()
    changed = {name for name in old if old[name] != new[name]}
    assert changed == {"kube-scheduler", "node-2/kubelet"}


def test_reboot_gives_a_new_boot_id_and_majors_and_restarts_pods(
    no_pods: None, tmp_path: Path
) -> None:
    create_pods(tmp_path, pod("survivor", "node-1"))
    old_boot, old_majors = boot_id("node-1"), majors("node-1")
    other = boot_id("node-2"), majors("node-2")
    lab("node-exec", "node-1", "touch", "/run/of-the-old-boot", "/var/lib/on-the-disk")
    lab("node", "reboot", "node-1")
    assert boot_id("node-1") not in (old_boot, other[0])
    assert not set(majors("node-1")) & {*old_majors, *other[1]}
    assert (boot_id("node-2"), majors("node-2")) == other
    listing = lab("node-exec", "node-1", "ls", "/run", "/var/lib").stdout.split()
    assert "of-the-old-boot" not in listing and "on-the-disk" in listing
    restarted = "jsonpath={.status.containerStatuses[0].restartCount}=1"
    kubectl("wait", f"--for={restarted}", "--timeout=60s", "pod/survivor")
    kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/survivor")


def test_nodes_can_be_added_stopped_started_and_removed(running: None) -> None:
    lab("node", "add")
    assert "node-3" in kubectl("get", "nodes", "-o", "name")
    old_boot = boot_id("node-3")
    lab("node", "stop", "node-3")
    assert processes()["node-3/kubelet"] == "-"
    lab("node", "start", "node-3")
    assert boot_id("node-3") != old_boot
    lab("node", "remove", "node-3")
    assert "node-3" not in kubectl("get", "nodes", "-o", "name")
    assert not any(name.startswith("node-3/") for name in processes())


def test_node_shows_its_hardware_to_every_container(
    emulated: None, no_pods: None, tmp_path: Path
) -> None:
    create_pods(tmp_path, pod("one", "node-1"))
    lines = in_pod("one", "cat /run/mnnvl/proc/devices").splitlines()
    channel_major, capability_major = majors("node-1")
    assert f"{channel_major} nvidia-caps-imex-channels" in lines
    assert f"{capability_major} nvidia-caps" in lines
    assert in_pod("one", "cat /run/mnnvl/boot_id").strip() == boot_id("node-1")
    lab("topology", "set", "node-1", "gpus.state=in_progress")
    shown = json.loads(in_pod("one", "cat /run/mnnvl/node.json"))
    assert {gpu["state"] for gpu in shown["gpus"]} == {"in_progress"}
    lab("topology", "set", "node-1", "gpus.state=completed")
    socket = (IDENTITY.state / "nodes" / "node-1" / "mnnvl" / "kernel.sock").stat()
    assert stat.S_IMODE(socket.st_mode) == 0o666


def test_every_api_request_is_in_the_audit_log_with_its_sender(running: None) -> None:
    log = IDENTITY.state / "control" / "log" / "audit.log"
    senders = {json.loads(line)["userAgent"].split("/")[0] for line in log.open()}
    assert {"kubelet", "kube-scheduler", "kube-controller-manager", "kubectl"} <= senders


def test_failed_start_names_the_component_and_shows_its_log(running: None) -> None:
    program = IDENTITY.state / "nodes" / "node-2" / "config" / "kubelet.json"
    program.write_text('{"kind": "Nonsense"}')
    lab("component", "kill", "node-2/kubelet")
    failed = lab("up", check=False)
    assert failed.returncode == 1
    assert "lab: kubelet of node-2: ended\n--- end of /" in failed.stderr
    assert "Nonsense" in failed.stderr
    lab("node", "reboot", "node-2")  # a boot writes the configuration again


def test_link_of_an_ended_node_that_the_kernel_has_not_removed_yet_is_replaced(running: None) -> None:
    lab("node", "stop", "node-2")
    lab("exec", "sh", "-c", "ip link add node2 type bridge || ip link show node2")
    lab("node", "start", "node-2")
    assert "veth" in lab("exec", "ip", "-details", "link", "show", "node2").stdout


def test_what_a_killed_lab_left_is_swept_by_up(running: None) -> None:
    state = json.loads((IDENTITY.state / "lab.json").read_text())
    (IDENTITY.state / "lab.json").write_text(json.dumps(state | {"complete": False}))
    old = processes()
    done = lab("up", "--nodes", "1", *emulator_options())
    assert "removing what an unfinished or killed lab left" in done.stderr
    new = processes()
    assert not any(name.startswith("node-2/") for name in new)
    assert not any(Process.of(int(pid)) for pid in old.values() if pid not in new.values())


def test_down_leaves_nothing(
    before: dict[str, set[str]], running: None, tmp_path: Path
) -> None:
    create_pods(tmp_path, pod("one", "node-1"))
    during = traces()
    assert during["processes"] and during["cgroups"], "the check sees a running lab"
    lab("down")
    assert traces() == before
    lab("down")  # of nothing is fine
