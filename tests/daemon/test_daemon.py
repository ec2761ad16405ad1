"""compute-domain-daemon as a black box: its files, its process, the nvidia-imex it runs, and nothing of its code."""

import os
import pathlib
import signal

import pytest
from daemon_node import DOMAIN
from world import eventually


def alive(pid: int) -> bool:
    try:
        return (pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]) != "Z"
    except FileNotFoundError:
        return False


# --- one node ---

def test_without_a_wish_it_waits_and_is_not_ready(clique):
    node = clique.node()
    node.start()
    status = node.wait_state("STOPPED")
    assert "desired.json" in status["error"] and status["domainUID"] == "" and status["index"] == -1
    result = node.check()
    assert result.returncode == 1 and "desired.json" in result.stderr
    node.write_desired('{"version":1,"run":true}')
    eventually(lambda: "no IMEX domain is assigned" in node.check().stderr)
    assert node.imex_pids() == []


def test_alone_it_becomes_ready(clique):
    node = clique.node()
    node.desire({})
    node.start()
    status = node.wait_state("READY")
    assert status["domainUID"] == DOMAIN["uid"] and status["index"] == 0 and status["address"] == node.ip
    assert status["bootID"] == "boot-1" and len(status["instance"]) == 16 and status["peers"] == []
    eventually(lambda: node.status()["imexVersion"] == "580.105.08")
    assert node.hosts() == {0: node.ip, 1: "127.0.0.2", 2: "127.0.0.2", 3: "127.0.0.2"}
    assert node.check().returncode == 0
    assert "127.0.0.1 localhost" in node.node.root("/etc/hosts").read_text()


def test_a_wish_that_comes_later_is_followed(clique):
    node = clique.node()
    node.start()
    node.wait_state("STOPPED")
    node.desire({})
    node.wait_state("READY")


def test_a_broken_wish_disturbs_nothing(clique):
    node = clique.node()
    node.desire({})
    node.start()
    instance = node.wait_state("READY")["instance"]
    node.write_desired('{"version":1,"run":false,"hosts":[{"index":1,"address":"nowhere"}]}')
    eventually(lambda: "hosts[0].address" in node.status()["error"])
    assert node.status()["state"] == "READY" and node.status()["instance"] == instance
    node.desire({})
    eventually(lambda: node.status()["error"] == "")


def test_run_false_stops_nvidia_imex(clique):
    node = clique.node()
    node.desire({})
    node.start()
    node.wait_state("READY")
    [pid] = node.imex_pids()
    node.desire({}, run=False)
    status = node.wait_state("STOPPED")
    assert not alive(pid) and status["domainUID"] == "" and status["instance"] == ""
    assert node.check().returncode == 1


def test_another_domain_restarts_nvidia_imex_once(clique):
    node = clique.node()
    node.desire({})
    node.start()
    first = node.wait_state("READY")
    old_names = node.node.root("/run/nvidia-imex/nodes.cfg").read_text()
    node.desire({}, domain={"name": "other.7", "uid": "uid-2"}, index=2)
    second = node.wait_state("READY", domainUID="uid-2", index=2)
    assert first["instance"] != second["instance"] and len(node.imex_pids()) == 2
    assert node.node.root("/run/nvidia-imex/nodes.cfg").read_text() != old_names
    assert node.hosts()[2] == node.ip


def test_a_killed_nvidia_imex_comes_back_as_a_new_instance(clique):
    node = clique.node()
    node.desire({})
    node.start()
    first = node.wait_state("READY")
    os.kill(node.imex_pids()[-1], signal.SIGKILL)
    second = node.wait_new_instance(first["instance"])
    assert second["error"] == ""
    [end] = [line for line in node.log() if line["msg"] == "nvidia-imex ended"]
    assert end["how"] == "was killed by signal 9" and "GPU event successfully subscribed" in end["lastLines"]


def test_one_that_cannot_start_is_retried_and_says_why(clique):
    node = clique.node()
    node.node.kernel.kill()
    node.desire({})
    node.start()
    status = eventually(lambda: node.status().get("state") == "FAILED" and node.status())
    assert "nvidia-imex exited with status" in status["error"]
    node.node.start_kernel()
    assert node.wait_state("READY")["error"] == ""


def test_an_nvidia_imex_of_the_host_is_told_in_the_kernels_words_and_outlived(clique):
    """The kernel takes one daemon. Ours keeps trying, touches the other one not, and works as soon as that is gone."""
    node = clique.node()
    host = node.node.start_imex([node.ip], SERVER_PORT=51000, IMEX_CMD_PORT=51005)
    node.node.wait_ready()
    node.desire({})
    node.start()
    status = eventually(lambda: node.status().get("state") == "FAILED" and node.status())
    assert "NV_ERR_IN_USE" in status["error"] and "stop and disable it" in status["error"]
    assert node.node.state() == "READY" and host.process.poll() is None
    host.stop()
    assert node.wait_state("READY")["error"] == ""


def test_a_status_that_cannot_be_written_is_told_once_and_written_as_soon_as_it_can_be(clique):
    node = clique.node()
    node.start()
    node.wait_state("STOPPED")
    status, away = node.dir / "status", node.dir / "away"
    status.rename(away)
    node.desire({})

    def told(text: str, **members) -> list:
        return [line for line in node.log() if line["msg"].startswith(text) and members.items() <= line.items()]

    eventually(lambda: told("status", state="READY"), what="nvidia-imex READY with nowhere to write it")
    away.rename(status)
    node.wait_state("READY")
    eventually(lambda: told("status.json is written again"))
    assert len(told("cannot write status.json")) == 1


def test_sigterm_stops_both_in_order(clique):
    node = clique.node()
    node.desire({})
    node.start()
    node.wait_state("READY")
    node.daemon.signal(signal.SIGTERM)
    assert node.daemon.wait(10) == 0
    [end] = [line for line in node.log() if line["msg"] == "nvidia-imex ended"]
    assert end["how"] == "exited with status 0"
    assert node.status()["state"] == "STOPPED" and "no daemon runs" in node.check().stderr


def test_a_daemon_started_again_without_its_plugin_works_from_the_last_wish(clique):
    node = clique.node()
    node.desire({})
    node.start()
    first = node.wait_state("READY")
    [pid] = node.imex_pids()
    node.daemon.kill()
    assert node.check().returncode == 1  # status.json still says READY, but nobody stands behind it
    eventually(lambda: not alive(pid), what="end of the orphan")
    node.start()
    second = node.wait_new_instance(first["instance"])
    assert second["domainUID"] == first["domainUID"] and node.check().returncode == 0


def test_a_second_daemon_waits_for_the_first(clique):
    node = clique.node()
    node.desire({})
    first = node.start()
    instance = node.wait_state("READY")["instance"]
    second = node.start()
    eventually(lambda: "another daemon of this node" in second.err())
    assert node.status()["instance"] == instance
    first.stop()
    node.wait_new_instance(instance)


@pytest.mark.parametrize("arguments, words", [
    (["run"], "--pod-ip"), (["run", "--pod-ip=pod"], "not an IP address"), (["run", "--colour"], "--colour"), ([], "subcommand")])
def test_a_bad_command_line_ends_with_2_and_one_reason(clique, arguments, words):
    result = clique.node().node.run([clique.daemon, *arguments])
    assert result.returncode == 2 and words in result.stderr


def test_it_needs_one_thread_and_little_memory(clique, record_property):
    node = clique.node()
    node.desire({})
    node.start()
    node.wait_state("READY")
    # nsenter became the daemon: the pid is its own.
    lines = pathlib.Path(f"/proc/{node.daemon.pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    assert values["Threads"].strip() == "1"
    # The budget of 8 MB is measured by the bench on a release build; here it is only shown.
    record_property("VmRSS", values["VmRSS"].strip())
    print("VmRSS", values["VmRSS"].strip())
