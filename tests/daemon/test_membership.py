"""Members that come, go and move: nvidia-imex keeps its process, and gets a signal only when an address changed."""

import time

from world import eventually


def test_three_daemons_connect(clique):
    nodes = clique.formed(3)
    for node in nodes:
        assert node.check().returncode == 0
        assert len(node.imex_pids()) == 1
        # They all knew each other from the start: there was nothing to signal.
        assert node.signals() == 0


def test_a_member_that_joins_is_connected_without_a_restart(clique):
    first, second = clique.formed(2)
    instances = [first.status()["instance"], second.status()["instance"]]
    third = clique.node()
    members = {0: first.ip, 1: second.ip, 2: third.ip}
    third.desire(members)
    third.start()
    for node in (first, second):
        node.desire(members)
    for node, others in ((first, (1, 2)), (second, (0, 2)), (third, (0, 1))):
        node.wait_connected(*others)
    assert [first.status()["instance"], second.status()["instance"]] == instances
    assert first.hosts()[2] == third.ip and first.signals() == 1 and second.signals() == 1


def test_a_member_that_moved_is_found_with_one_signal(clique):
    first, second, third = clique.formed(3)
    instance = first.status()["instance"]
    # The pod of the third node is replaced: another address, the same slot.
    third.daemon.stop()
    third.ip = f"{clique.world.network}.103"
    members = {0: first.ip, 1: second.ip, 2: third.ip}
    third.desire(members)
    third.start()
    for node in (first, second):
        node.desire(members)
    third.wait_connected(0, 1)
    first.wait_connected(1, 2)
    second.wait_connected(0, 2)
    assert first.signals() == 1 and second.signals() == 1
    assert first.status()["instance"] == instance and len(first.imex_pids()) == 1


def test_a_lost_member_is_reported_and_its_leaving_signals_nobody(clique):
    first, second, third = clique.formed(3)
    third.daemon.stop()
    eventually(lambda: first.connected() == [1], what="loss of the third")
    for node in (first, second):
        node.desire({0: first.ip, 1: second.ip})
        eventually(lambda n=node: len(n.status()["peers"]) == 1)
    assert first.hosts()[2] == "127.0.0.2"
    assert first.signals() == 0 and second.signals() == 0


def test_many_changes_at_once_become_two_signals(clique):
    first, second = clique.formed(2)
    begin = time.monotonic()
    for last in range(110, 120):
        first.desire({0: first.ip, 1: second.ip, 2: f"{clique.world.network}.{last}"})
        eventually(lambda a=f"{clique.world.network}.{last}": first.hosts()[2] == a)
    assert time.monotonic() - begin < 5, "too slow here to tell anything about coalescing"
    first.desire({0: first.ip, 1: second.ip})
    eventually(lambda: first.signals() == 2)
    assert time.monotonic() - begin >= 5
    first.wait_connected(1)
    assert len(first.imex_pids()) == 1
