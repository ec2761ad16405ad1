"""nvidia-imex-ctl: options, exit codes, and the shapes that programs parse."""

import json
import re
import signal

import pytest
from world import COMMAND_PORT, eventually


@pytest.fixture
def node(world):
    node = world.node()
    node.start_imex([node.ip], IMEX_CMD_UNIX_DOMAIN_PATH=node.directory / "cmd.sock")
    node.wait_ready()
    return node


def ctl(node, *arguments):
    return node.run([node.world.bin / "nvidia-imex-ctl", *arguments])


def test_query_prints_one_word_and_nothing_else(node):
    result = node.ctl("-q")
    assert (result.returncode, result.stdout, result.stderr) == (0, "READY\n", "")


@pytest.mark.parametrize("target", ["tcp", "unix", "unix long", "config"])
def test_query_by_address_socket_or_configuration(node, target):
    arguments = {"tcp": ["-i", node.ip, COMMAND_PORT], "unix": ["-u", node.directory / "cmd.sock"],
                 "unix long": [f"--u={node.directory}/cmd.sock"], "config": ["-c", node.directory / "config.cfg"]}[target]
    assert ctl(node, "-q", *arguments).stdout == "READY\n"


def test_default_configuration_file(node):
    node.run(["sh", "-c", "mount -t tmpfs etc /mnt && mkdir -p /mnt/nvidia-imex && "
                          f"cp {node.directory}/config.cfg /mnt/nvidia-imex/ && cp /etc/hosts /etc/nsswitch.conf /mnt/ && "
                          "mount --bind /mnt /etc"], check=True)
    assert ctl(node, "-q").stdout == "READY\n"


@pytest.mark.parametrize("arguments", [
    ["-q", "-c", "a", "-u", "b"], ["-q", "-i", "127.0.0.1", "1", "-u", "b"], [], ["-q", "-N"], ["-x"],
    ["-N", "-u", "b"], ["-h"], ["-q", "-i", "127.0.0.1"]])
def test_usage_errors(node, arguments):
    result = ctl(node, *arguments)
    assert result.returncode == 1 and "Usage: nvidia-imex-ctl" in result.stderr and result.stdout == ""


@pytest.mark.parametrize("action", ["-q", "-N"])
def test_unreadable_configuration(node, action):
    result = ctl(node, action, "-c", "/no/such")
    assert result.returncode == 255 and "Failed to read node configuration file" in result.stderr


def test_unreadable_node_file(node):
    (node.directory / "nodes.cfg").unlink()
    result = node.ctl("-N")
    assert result.returncode == 255 and "Failed to read node configuration file" in result.stderr


def test_no_daemon_is_error_code_14(node):
    node.imex.stop()
    for arguments in (["-c", node.directory / "config.cfg"], ["-u", node.directory / "cmd.sock"]):
        result = ctl(node, "-q", *arguments)
        assert result.returncode != 0 and "Query Status returned error code: 14" in result.stderr


def test_command_service_can_be_disabled(world):
    node = world.node()
    node.start_imex([node.ip], IMEX_CMD_ENABLED=0)
    eventually(lambda: "GPU event successfully subscribed" in node.imex.err())
    assert node.ctl("-q").returncode != 0


def test_query_during_start_tells_the_state(world):
    node = world.node()
    node.start_imex([node.ip, "127.0.0.2"], IMEX_WAIT_FOR_QUORUM="FULL")
    eventually(lambda: node.state() == "WAITING_FOR_PEERS")


def test_domain_json_shape(world):
    a, b = world.domain(2)
    text = a.ctl("-N", "-j").stdout
    assert text.endswith("\n") and text.count("\n") == 1
    domain = json.loads(text)
    assert domain["nodes"]["1"] == {
        "status": "READY", "host": b.ip, "changed": True, "version": "580.105.08", "hostName": "",
        "connections": {str(i): {"host": n.ip, "status": "CONNECTED", "changed": True} for i, n in enumerate((a, b))}}
    assert re.fullmatch(r"[1-9]\d?/[1-9]\d?/\d{4} \d\d:\d\d:\d\d\.\d{3}", domain["timestamp"])
    # Readers take the last "status" of the text for the domain's.
    assert text.rpartition('"status":')[2] == '"UP"}\n'


def test_unreachable_member_in_json(world):
    node = world.node()
    node.start_imex([node.ip, "127.0.0.2", "no-such-host.invalid"])
    node.wait_ready()
    domain = json.loads(node.ctl("-N", "-j", "-H").stdout)
    assert domain["status"] == "DEGRADED"
    gone = domain["nodes"]["1"]
    assert (gone["status"], gone["version"], gone["hostName"]) == ("UNAVAILABLE", "", "N/A")
    assert {c["status"] for c in gone["connections"].values()} == {"INVALID"}
    assert domain["nodes"]["0"]["hostName"] not in ("", "N/A")
    assert domain["nodes"]["2"]["host"] == "no-such-host.invalid"


def test_domain_without_any_daemon_is_down(world):
    nodes = world.domain(2)
    for node in nodes:
        node.imex.kill()
    domain = nodes[0].domain()
    assert domain["status"] == "DOWN" and {n["status"] for n in domain["nodes"].values()} == {"UNAVAILABLE"}


def test_blocked_command_port_shows_connected_but_unavailable(world):
    """Peers link over another port than the one that tells their status."""
    a, b = world.node(), world.node()
    a.start_imex([a.ip, b.ip])
    b.start_imex([a.ip, b.ip], IMEX_CMD_PORT=COMMAND_PORT + 1)
    eventually(lambda: a.connection(1) == "CONNECTED")
    domain = a.domain()
    assert domain["nodes"]["1"]["status"] == "UNAVAILABLE" and domain["status"] == "DEGRADED"


def test_domain_text_shape(world):
    a, b = world.domain(2)
    b.imex.kill()
    eventually(lambda: a.connection(1) == "RECOVERING")
    text = a.ctl("-N").stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "Connectivity Table Legend:"
    assert f"Node #0 * {a.ip} * - READY - Version: 580.105.08" in lines
    assert f"Node #1 - {b.ip} - UNAVAILABLE - Version:" in lines
    table = lines.index("Nodes From\\To 0 1")
    assert lines[table + 1:table + 3] == ["0 C R", "1 I I"]
    assert lines[-1] == "Domain State: DEGRADED"


def test_continuous_status_marks_changes(world):
    a, b = world.domain(2)
    program = a.start([world.bin / "nvidia-imex-ctl", "-c", a.directory / "config.cfg", "-n", "-j"], "ctl")
    seen = lambda: [json.loads(line) for line in program.out().splitlines()]  # noqa: E731
    eventually(lambda: len(seen()) >= 2)
    assert [seen()[0]["nodes"]["1"]["changed"], seen()[1]["nodes"]["1"]["changed"]] == [True, False]
    b.imex.kill()
    lost = eventually(lambda: [s for s in seen()[1:] if s["status"] == "DEGRADED"])[0]
    assert lost["nodes"]["1"]["changed"]


def test_subscription_follows_the_state(world):
    a, b = world.node(), world.node()
    a.start_imex([a.ip, b.ip], IMEX_WAIT_FOR_QUORUM="FULL")
    eventually(lambda: a.state() == "WAITING_FOR_PEERS")
    program = a.start([world.bin / "nvidia-imex-ctl", "-i", a.ip, COMMAND_PORT, "-s"], "ctl")
    eventually(lambda: "WAITING_FOR_PEERS" in program.out())
    b.start_imex([a.ip, b.ip], IMEX_WAIT_FOR_QUORUM="FULL")
    eventually(lambda: "READY" in program.out().splitlines())
    a.imex.signal(signal.SIGTERM)
    assert program.wait() == 0
    states = [line for line in program.out().splitlines() if line.isupper()]
    assert states == ["WAITING_FOR_PEERS", "INIT_GPU", "READY", "SHUTTING_DOWN", "SHUTTING_DOWN"]


def test_subscription_ends_after_its_time(node):
    result = node.ctl("-s", "-t", "100")
    assert result.returncode == 0
    assert result.stdout.splitlines()[-2:] == ["Finishing subscription", "READY"]
