"""nvidia-imex: start, links between nodes, loss and return, and imports across nodes."""

import json
import os
import signal
import time

import pytest
from world import PEER_PORT, eventually

NOT_PERMITTED, NOT_SUPPORTED, NOT_FOUND, NOT_MAPPABLE, INVALID_STATE, TIMEOUT, IMPORT_LOST = 10, 11, 15, 16, 17, 19, 20


def exported(node, *arguments):
    program = node.start_mnnvl("export", *arguments)
    return program, program.first_line()


# --- start ---

def test_ready_alone_though_no_other_member_exists(world):
    node = world.node()
    node.start_imex([node.ip, "127.0.0.2", "no-such-host.invalid"])
    node.wait_ready()
    assert node.domain()["status"] == "DEGRADED"


def test_help_succeeds(world):
    node = world.node(kernel=False)
    result = node.run([world.bin / "nvidia-imex", "--help"])
    assert result.returncode == 0 and "Usage" in result.stdout


@pytest.mark.parametrize("flag", ["--nogpu", "-nogpu"])
def test_runs_without_a_gpu_driver(world, flag):
    node = world.node(kernel=False)
    node.start_imex([node.ip], flag)
    node.wait_ready()
    assert node.domain()["nodes"]["0"]["version"] == "NO_GPU"


def test_own_entry_is_the_first_with_an_address_of_this_machine(world):
    node = world.node()
    # 127.0.0.1 is the only address here that an interface has; the port is this test's own.
    node.start_imex(["192.0.2.1", "127.0.0.1", "127.0.0.1"], BIND_INTERFACE_IP="", SERVER_PORT=20000 + os.getpid() % 20000)
    node.wait_ready()
    assert "Identified this node as ID 1, using bind IP of '127.0.0.1', and network interface of lo" in node.imex.err()


def test_own_entry_is_the_name_that_resolves_to_the_bind_address(world):
    node = world.node()
    node.set_hosts({"member-0": "127.0.0.2", "member-1": node.ip, "member-2": "127.0.0.2"})
    node.start_imex(["member-0", "member-1", "member-2"])
    node.wait_ready()
    assert "Identified this node as ID 1" in node.imex.err()
    assert "Treating node config entry 'member-0' as a host name." in node.imex.err()


def failed_start(node, nodes, *arguments, **keys) -> str:
    program = node.start_imex(nodes, *arguments, **keys)
    assert program.wait() != 0
    return program.err()


def test_start_fails_without_an_own_entry(world):
    node = world.node()
    assert ("No matching network interface found for any IP addresses in the node configuration file "
            f"{node.directory}/nodes.cfg.") in failed_start(node, ["192.0.2.1", "192.0.2.2"])


def test_start_fails_without_files(world):
    node = world.node()
    assert "Failed to read node configuration file" in failed_start(node, [], IMEX_NODE_CONFIG_FILE="/no/such")
    result = node.run([world.bin / "nvidia-imex", "-c", "/no/such"])
    assert result.returncode != 0 and "/no/such" in result.stderr


def test_start_fails_on_a_taken_port(world):
    node, other = world.node(), world.node()
    node.start_imex([node.ip])
    node.wait_ready()
    assert "Address already in use" in failed_start(other, [node.ip], BIND_INTERFACE_IP=node.ip)


def test_start_fails_when_driver_and_daemon_differ(world):
    node = world.node()
    node.write(imexVersion="570.00")
    assert "is not matching with current GPU driver version 580.105.08" in failed_start(node, [node.ip])


def test_second_daemon_of_a_node_is_refused_by_the_kernel(world):
    node = world.node()
    first = node.start_imex([node.ip])
    node.wait_ready()
    assert "NV_ERR_IN_USE" in failed_start(node, [node.ip], SERVER_PORT=PEER_PORT + 1, IMEX_CMD_PORT=50006)
    node.config()
    assert node.state() == "READY" and first.process.poll() is None


def test_session_needs_the_capability_device(world):
    node = world.node(capability=False)
    assert "NV_ERR_INSUFFICIENT_PERMISSIONS" in failed_start(node, [node.ip])


def test_session_needs_the_capability_in_the_device_cgroup(world, device_cgroups):
    node = world.node()
    (node.directory / "nodes.cfg").write_text(f"{node.ip}\n")
    argv = [world.bin / "nvidia-imex", "-c", node.config()]
    refused = node.start(argv, "imex", cgroup=world.device_cgroup())
    assert refused.wait() != 0 and "NV_ERR_INSUFFICIENT_PERMISSIONS" in refused.err()
    node.imex = node.start(argv, "imex", cgroup=world.device_cgroup(f"c {node.caps_major}:3 r"))
    node.wait_ready()


@pytest.mark.parametrize("keys,message", [
    ({"IMEX_AUTH_SOURCE": "FILE"}, "cannot authenticate or encrypt"),
    ({"IMEX_AUTH_SOURCE": ""}, "invalid IMEX_AUTH_SOURCE"),
    ({"IMEX_AUTH_ENCRYPTION_MODE": "ROT13"}, "invalid IMEX_AUTH_ENCRYPTION_MODE"),
])
def test_encryption_is_refused_rather_than_pretended(world, keys, message):
    node = world.node()
    assert message in failed_start(node, [node.ip], IMEX_ENABLE_AUTH_ENCRYPTION=1, **keys)


def test_unknown_key_is_a_warning_and_a_bad_value_an_error(world):
    node = world.node()
    node.start_imex([node.ip], NO_SUCH_KEY=1)
    node.wait_ready()
    assert "unknown key NO_SUCH_KEY" in node.imex.err()
    assert "SERVER_PORT" in failed_start(node, [node.ip], SERVER_PORT="many")


def test_port_option_overrides_the_configuration(world):
    node = world.node()
    node.start_imex([node.ip], "-p", "50123")
    node.wait_ready()
    assert "communication bind port = 50123" in node.imex.err()


def test_daemonize_returns_when_ready_and_leaves_a_daemon(world):
    node = world.node()
    log = node.directory / "imex.log"
    program = node.start_imex([node.ip], DAEMONIZE=1, LOG_FILE_NAME=log)
    assert program.wait() == 0
    assert node.state() == "READY"
    tid = log.read_text().rpartition("[tid ")[2].partition("]")[0]
    os.kill(int(tid), signal.SIGTERM)
    eventually(lambda: node.state() == "", what="end of the daemon")


def test_daemonize_reports_a_failed_start(world):
    node = world.node(capability=False)
    assert node.start_imex([node.ip], DAEMONIZE=1).wait() == 1


def test_log_file_appends_or_overwrites(world):
    node = world.node()
    log = node.directory / "imex.log"
    for append, expected in ((0, 1), (1, 2), (0, 1)):
        node.start_imex([node.ip], LOG_FILE_NAME=log, LOG_APPEND_TO_LOG=append)
        node.wait_ready()
        assert node.imex.stop() == 0
        assert log.read_text().count("IMEX Log initializing at:") == expected


# --- links ---

def test_three_members_connect_all_pairs(world):
    nodes = world.domain(3)
    for row in nodes[1].domain()["nodes"].values():
        assert [c["status"] for c in row["connections"].values()] == ["CONNECTED"] * 3


def test_late_member_is_found_by_the_retries(world):
    first, late = world.node(), world.node()
    first.start_imex([first.ip, late.ip])
    first.wait_ready()
    assert first.connection(1) == "NEVER_CONNECTED"
    late.start_imex([first.ip, late.ip])
    eventually(lambda: first.domain()["status"] == "UP")


def test_other_node_map_is_refused_both_ways_until_restart(world):
    a, b = world.node(), world.node()
    a.start_imex([a.ip, b.ip])
    b.start_imex([a.ip, b.ip, "127.0.0.2"])
    eventually(lambda: a.connection(1) == b.connection(0) == "MAP_MISMATCH")
    assert "Node configuration mapping mismatch" in a.imex.err()
    # One side corrected is not enough.
    b.imex.stop()
    b.start_imex([a.ip, b.ip])
    eventually(lambda: b.connection(0) == "CONNECTED")
    assert a.connection(1) == "MAP_MISMATCH"
    a.imex.stop()
    a.start_imex([a.ip, b.ip])
    eventually(lambda: a.domain()["status"] == "UP")


def test_other_version_is_refused(world):
    a, b = world.node(), world.node(kernel=False)
    b.write(driverVersion="570.172")
    b.start_kernel()
    for node in (a, b):
        node.start_imex([a.ip, b.ip])
        node.wait_ready()
    eventually(lambda: a.connection(1) == b.connection(0) == "VERSION_MISMATCH")


def test_equal_map_of_another_domain_is_taken_for_a_member(world):
    """Names are all the identity there is: a stale hosts entry joins two domains."""
    a, stranger = world.node(), world.node()
    a.set_hosts({"member-0": a.ip, "member-1": stranger.ip})
    stranger.set_hosts({"member-0": "127.0.0.2", "member-1": stranger.ip})
    for node in (a, stranger):
        node.start_imex(["member-0", "member-1"])
    eventually(lambda: a.connection(1) == "CONNECTED")


def test_lost_member_is_recovering_and_comes_back(world):
    a, b = world.domain(2)
    b.imex.kill()
    eventually(lambda: a.connection(1) == "RECOVERING")
    assert a.domain()["nodes"]["1"]["status"] == "UNAVAILABLE" and a.state() == "READY"
    assert f"Connection lost to node 1: {b.ip}:{PEER_PORT}" in a.imex.err()
    b.start_imex([a.ip, b.ip])
    eventually(lambda: a.domain()["status"] == "UP")


def test_grace_time_ends_in_disconnected(world):
    a, b = world.domain(2, IMEX_NODE_DISCONNECTED_GRACE_TIME=3)
    b.imex.kill()
    eventually(lambda: a.connection(1) == "RECOVERING")
    eventually(lambda: a.connection(1) == "DISCONNECTED")
    assert "Node disconnect event detected for node 1" in a.imex.err()


def test_graceful_stop_is_announced(world):
    a, b = world.domain(2)
    b.imex.signal(signal.SIGTERM)
    assert b.imex.wait() == 0
    eventually(lambda: a.connection(1) == "DISCONNECTED")
    assert f"Received notification of shutdown from node 1 - {b.ip}" in a.imex.err()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_other_signals_stop_gracefully_too(world, number):
    node = world.node()
    node.start_imex([node.ip])
    node.wait_ready()
    node.imex.signal(number)
    assert node.imex.wait() == 0


def test_sighup_writes_the_verbose_buffer(world):
    node = world.node()
    node.start_imex([node.ip])
    node.wait_ready()
    assert "Attempting connection" not in node.imex.err()
    node.imex.signal(signal.SIGHUP)
    eventually(lambda: f"Attempting connection for target node 0 - {node.ip}:{PEER_PORT}, attempt #1" in node.imex.err())


# --- SIGUSR1 ---

def test_sigusr1_resolves_names_again_and_keeps_imports(world):
    a, b = world.node(), world.node()
    names = ["member-0", "member-1"]
    a.set_hosts({"member-0": a.ip, "member-1": "127.0.0.2"})
    b.set_hosts({"member-0": a.ip, "member-1": b.ip})
    for node in (a, b):
        node.make_channel(5)
        node.start_imex(names)
        node.wait_ready()
    eventually(lambda: b.connection(0) == "CONNECTED")
    _, handle = exported(a)
    holder = b.start_mnnvl("import", handle, "--hold")
    assert holder.first_line() == "hello"
    a.set_hosts({"member-0": a.ip, "member-1": b.ip})
    a.imex.signal(signal.SIGUSR1)
    b.imex.signal(signal.SIGUSR1)
    eventually(lambda: a.domain()["status"] == "UP")
    assert holder.process.poll() is None
    assert b.imex.err().count("Connection established to node 0") == 2


def test_sigusr1_is_ignored_within_five_seconds(world):
    a, _ = world.domain(2)
    restarts = lambda: a.imex.err().count("Restarting connections to all peers")  # noqa: E731
    a.imex.signal(signal.SIGUSR1)
    eventually(lambda: restarts() == 1)
    started = time.monotonic()
    a.imex.signal(signal.SIGUSR1)
    # Signals of one process are handled in order: once this one has shown, the last was seen and dropped.
    a.imex.signal(signal.SIGHUP)
    eventually(lambda: "[VERBOSE]" in a.imex.err())
    assert restarts() == 1

    def restarted():
        a.imex.signal(signal.SIGUSR1)
        return restarts() == 2

    eventually(restarted)
    assert time.monotonic() - started > 4


# --- imports across nodes ---

def test_import_across_nodes_on_the_same_channel(world):
    a, b = world.domain(2, channel=7)
    _, handle = exported(a, "--text", "over the fabric")
    assert handle.startswith("0:")
    result = b.mnnvl("import", handle)
    assert (result.returncode, result.stdout) == (0, "over the fabric\n")


def test_import_across_nodes_on_another_channel_is_refused(world):
    a, b = world.domain(2, channel=7)
    b.make_channel(8)
    _, handle = exported(a)
    result = b.mnnvl("import", handle, "--channel", "8")
    assert result.returncode == NOT_PERMITTED and "NV_ERR_INSUFFICIENT_PERMISSIONS" in result.stderr


def test_import_across_nodes_needs_the_local_daemon(world):
    a, b = world.domain(2)
    _, handle = exported(a)
    b.imex.stop()
    assert b.mnnvl("import", handle).returncode == NOT_SUPPORTED


def test_import_from_an_unreachable_node_fails(world):
    a, b = world.domain(2)
    _, handle = exported(a)
    a.imex.kill()
    eventually(lambda: b.connection(0) == "RECOVERING")
    assert b.mnnvl("import", handle).returncode == TIMEOUT


def test_unknown_handles(world):
    a, b = world.domain(2)
    assert b.mnnvl("import", "0:4711").returncode == NOT_FOUND
    assert b.mnnvl("import", "9:1").returncode == NOT_FOUND
    assert b.mnnvl("import", "65535:1").returncode == NOT_SUPPORTED


def test_other_clique_cannot_map_across_nodes(world):
    a, b = world.domain(2)
    _, handle = exported(a)
    b.write(gpu={"cliqueId": 2})
    assert b.mnnvl("import", handle).returncode == NOT_MAPPABLE
    b.write(gpu={"cliqueId": 1})
    assert b.mnnvl("import", handle).returncode == 0


def test_two_daemons_with_one_index_break_imports(world):
    a, b = world.node(), world.node()
    for node in (a, b):
        node.make_channel(5)
    a.set_hosts({"member-0": a.ip, "member-1": b.ip})
    b.set_hosts({"member-0": b.ip, "member-1": a.ip})
    for node in (a, b):
        node.start_imex(["member-0", "member-1"])
    eventually(lambda: a.connection(1) == "CONNECTED")
    _, handle = exported(a)
    # b is node 0 itself, so the handle seems its own.
    assert b.mnnvl("import", handle).returncode == NOT_FOUND


# --- loss of memory ---

def held_import(world, **keys):
    a, b = world.domain(2, **keys)
    _, handle = exported(a)
    holder = b.start_mnnvl("import", handle, "--hold")
    assert holder.first_line() == "hello"
    return a, b, holder


def test_restart_of_the_exporters_daemon_invalidates_imports(world):
    a, b, holder = held_import(world)
    a.imex.kill()
    eventually(lambda: b.connection(0) == "RECOVERING")
    assert holder.process.poll() is None
    a.start_imex([a.ip, b.ip])
    assert holder.wait() == IMPORT_LOST and "node 0 is gone" in holder.err()
    eventually(lambda: b.domain()["status"] == "UP")


def test_graceful_stop_of_the_exporter_invalidates_imports(world):
    a, b, holder = held_import(world)
    a.imex.signal(signal.SIGTERM)
    assert holder.wait() == IMPORT_LOST


def test_grace_time_zero_invalidates_at_once(world):
    a, b, holder = held_import(world, IMEX_NODE_DISCONNECTED_GRACE_TIME=0)
    a.imex.kill()
    assert holder.wait() == IMPORT_LOST


def test_end_of_the_local_daemon_disables_local_importers(world):
    a, b, holder = held_import(world)
    b.imex.kill()
    assert holder.wait() == IMPORT_LOST and "nvidia-imex of this node is gone" in holder.err()


def test_crash_with_exports_in_use_blocks_allocations_until_the_daemon_is_back(world):
    a, b, holder = held_import(world)
    advice = lambda: (a.directory / "recovery_action").read_text().strip()  # noqa: E731
    assert advice() == "0"
    a.imex.kill()
    eventually(lambda: advice() == "5")
    assert a.mnnvl("export").returncode == INVALID_STATE
    a.start_imex([a.ip, b.ip])
    a.wait_ready()
    assert advice() == "0"
    exported(a)


def test_graceful_stop_blocks_nothing(world):
    a, b, holder = held_import(world)
    a.imex.stop()
    assert (a.directory / "recovery_action").read_text().strip() == "0"
    exported(a)


def test_daemon_ends_with_its_kernel_driver(world):
    node = world.node()
    node.start_imex([node.ip])
    node.wait_ready()
    node.kernel.kill()
    assert node.imex.wait() == 1 and "Lost the GPU driver" in node.imex.err()


# --- recovery ---

PERSIST = "/run/nvidia-imex/persist.dat"


def test_importers_are_persisted_and_forgotten(world):
    a, b, holder = held_import(world)
    eventually(lambda: a.root(PERSIST).exists())
    assert json.loads(a.root(PERSIST).read_text())["importers"] == [1]
    b.imex.stop()
    eventually(lambda: a.connection(1) == "DISCONNECTED")
    eventually(lambda: json.loads(a.root(PERSIST).read_text())["importers"] == [])


def crash_with_importer(world):
    a, b, _ = held_import(world)
    eventually(lambda: a.root(PERSIST).exists())
    a.imex.kill()
    b.imex.kill()
    return a, b


def test_recovery_quorum_holds_back_ready(world):
    a, b = crash_with_importer(world)
    a.start_imex([a.ip, b.ip], IMEX_WAIT_FOR_QUORUM="RECOVERY")
    eventually(lambda: a.state() == "WAITING_FOR_RECOVERY")
    b.start_imex([a.ip, b.ip])
    a.wait_ready()


def test_quorum_none_never_waits(world):
    a, b = crash_with_importer(world)
    a.start_imex([a.ip, b.ip], IMEX_WAIT_FOR_QUORUM="NONE")
    a.wait_ready()


def test_changed_node_file_discards_what_was_persisted(world):
    a, b = crash_with_importer(world)
    a.start_imex([a.ip, b.ip, "127.0.0.2"], IMEX_WAIT_FOR_QUORUM="RECOVERY")
    a.wait_ready()


def test_graceful_stop_leaves_no_persisted_importers(world):
    a, b, _ = held_import(world)
    eventually(lambda: a.root(PERSIST).exists())
    a.imex.stop()
    assert not a.root(PERSIST).exists()


def test_full_quorum_waits_for_all(world):
    a, b = world.node(), world.node()
    a.start_imex([a.ip, b.ip], IMEX_WAIT_FOR_QUORUM="FULL")
    eventually(lambda: a.state() == "WAITING_FOR_PEERS")
    b.start_imex([a.ip, b.ip], IMEX_WAIT_FOR_QUORUM="FULL")
    for node in (a, b):
        node.wait_ready()
