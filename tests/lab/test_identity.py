"""Labs of different checkouts share neither names nor device numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import state, topology
from lab.errors import LabError
from lab.identity import Identity


def test_checkouts_and_instances_have_names_of_their_own() -> None:
    identities = [
        Identity(Path("/home/a/project")),
        Identity(Path("/home/b/project")),
        Identity(Path("/home/a/project"), "second"),
    ]
    assert len({identity.name for identity in identities}) == 3
    assert identities[0].name == Identity(Path("/home/a/project")).name


def test_labs_of_one_machine_take_majors_from_different_blocks(tmp_path: Path) -> None:
    taken = []
    for number in range(14):
        identity = Identity(Path(f"/checkout-{number}"), state_root=tmp_path)
        fresh = state.fresh(identity)
        identity.state.mkdir(parents=True)
        state.save(identity, fresh)
        taken.append(fresh.majors_from)
    assert len(set(taken)) == 14
    assert min(taken) == 512 and max(taken) + 255 == 4095
    with pytest.raises(LabError, match="take one down"):
        state.fresh(Identity(Path("/one-more"), state_root=tmp_path))


def test_majors_are_new_at_every_boot_and_never_shared(tmp_path: Path) -> None:
    lab = state.fresh(Identity(tmp_path, state_root=tmp_path))
    one = lab.add_node(topology.default_node("one"))
    two = lab.add_node(topology.default_node("two"))
    lab.take_majors(one)
    boots = set()
    for _ in range(300):  # more often than there are numbers
        before = (two.channel_major, two.capability_major)
        lab.take_majors(two)
        numbers = (two.channel_major, two.capability_major)
        assert not set(numbers) & {*before, one.channel_major, one.capability_major}
        assert all(lab.majors_from <= number < lab.majors_from + 256 for number in numbers)
        boots.add(numbers)
    assert len(boots) > 100


def test_index_of_a_removed_node_is_given_again_but_no_other_changes(tmp_path: Path) -> None:
    lab = state.fresh(Identity(tmp_path, state_root=tmp_path))
    for name in ("one", "two", "three"):
        lab.add_node(topology.default_node(name))
    lab.nodes.remove(lab.node("two"))
    lab.add_node(topology.default_node("four"))
    assert {node.name: node.index for node in lab.nodes} == {"one": 1, "three": 3, "four": 2}


def test_state_survives_saving(tmp_path: Path) -> None:
    identity = Identity(Path("/checkout"), state_root=tmp_path)
    identity.state.mkdir(parents=True)
    lab = state.fresh(identity)
    lab.take_majors(lab.add_node(topology.default_node("one")))
    state.save(identity, lab)
    assert state.load(identity) == lab


def test_damaged_state_is_reported_with_the_way_out(tmp_path: Path) -> None:
    identity = Identity(Path("/checkout"), state_root=tmp_path)
    identity.state.mkdir(parents=True)
    (identity.state / "lab.json").write_text("{")
    with pytest.raises(LabError, match="run `lab down`"):
        state.load(identity)


def test_lock_leaves_no_folder_behind(tmp_path: Path) -> None:
    identity = Identity(Path("/checkout"), state_root=tmp_path / "labs")
    with state.locked(identity):
        assert identity.state.is_dir()
    assert not identity.state_root.exists()
