"""The judge itself: what it must and must not let pass."""

from __future__ import annotations

import pytest

from .verdict import LOST, UNREACHABLE, Attempt, Disturbance, Disturbances, Place, judge, parse

RED_1, RED_2, RED_3, BLUE_2 = Place("red", "node-1"), Place("red", "node-2"), Place("red", "node-3"), Place("blue", "node-2")


def attempt(exporter: Place, code: int, text: str = "", kind: str = "import", begin: float = 10, end: float = 11, exported: float = 1) -> Attempt:
    return Attempt(kind, begin, end, exported, RED_1, exporter, "0:1", code, text)


def known(*disturbances: Disturbance) -> Disturbances:
    return Disturbances(list(disturbances))


NODE_2 = Disturbance("kill", 5, nodes=frozenset({"node-2"}), end=20)
RED = Disturbance("delete", 5, domains=frozenset({"red"}), end=20)
CASES = {
    "import_of_a_peer": (attempt(RED_2, 0, "memory of red/node-2"), known(), ""),
    "refused_import_of_a_foreign_domain": (attempt(BLUE_2, 10, "mnnvl: not permitted"), known(), ""),
    "import_of_a_foreign_domain": (attempt(BLUE_2, 0, "memory of blue/node-2"), known(NODE_2, RED), "isolation breach"),
    "own_memory_by_a_dead_foreign_handle": (attempt(BLUE_2, 0, "memory of red/node-2"), known(), ""),
    "foreign_import_that_succeeds_without_a_text": (attempt(BLUE_2, 0), known(), "isolation breach"),
    "foreign_memory_by_an_old_handle": (attempt(RED_2, 0, "memory of blue/node-2"), known(NODE_2, RED), "isolation breach"),
    "other_memory_than_the_handle_names": (attempt(RED_2, 0, "memory of red/node-3"), known(), "wrong memory"),
    "failed_import": (attempt(RED_2, 15), known(), "broken"),
    "failed_import_from_a_disturbed_node": (attempt(RED_2, 15), known(NODE_2), ""),
    "failed_import_from_another_node": (attempt(RED_3, 15), known(NODE_2), "broken"),
    "links_made_anew_when_a_node_returns": (attempt(RED_3, UNREACHABLE), known(NODE_2), ""),
    "hold_that_begins_while_links_are_made_anew": (attempt(RED_3, UNREACHABLE, kind="hold"), known(NODE_2), ""),
    "hold_that_is_lost_while_links_are_made_anew": (attempt(RED_3, LOST, kind="hold"), known(NODE_2), "broken"),
    "unreachable_while_its_domain_is_deleted": (attempt(RED_3, UNREACHABLE), known(RED), ""),
    "unreachable_after_the_cause": (attempt(RED_3, UNREACHABLE, begin=21, end=22), known(NODE_2), "broken"),
    "memory_of_a_sick_node": (attempt(RED_2, 16, begin=30, end=30, exported=15), known(NODE_2), ""),
    "memory_that_went_with_its_node": (attempt(RED_2, 15, begin=30, end=30, exported=3), known(NODE_2), ""),
    "memory_of_a_node_that_was_never_disturbed": (attempt(RED_3, 15, begin=30, end=30, exported=3), known(NODE_2), "broken"),
    "memory_made_when_the_node_was_well_again": (attempt(RED_2, 16, begin=30, end=30, exported=25), known(NODE_2), "broken"),
    "before_the_disturbance": (attempt(RED_2, 15, begin=3, end=4), known(NODE_2), "broken"),
    "lost_hold": (attempt(RED_3, 20, kind="hold", begin=1), known(), "broken"),
    "hold_lost_with_the_exporters_node": (attempt(RED_2, 20, kind="hold", begin=1), known(NODE_2), ""),
    "hold_that_outlived_the_disturbance": (attempt(RED_2, 20, kind="hold", begin=1, end=30), known(NODE_2), "broken"),
    "hold_lost_to_a_third_node": (attempt(RED_3, 20, kind="hold", begin=1), known(NODE_2), "broken"),
    "domain_being_deleted": (attempt(RED_2, 15), known(RED), ""),
    "refused_export": (attempt(RED_1, 17, kind="export"), known(), "broken"),
}


@pytest.mark.parametrize("case", CASES)
def test_judge(case: str) -> None:
    seen, disturbances, verdict = CASES[case]
    assert judge(seen, disturbances).partition(":")[0] == verdict


def test_line_of_a_log() -> None:
    assert parse("import 1.50 1.62 1.25 red node-2 3:7 0 memory of red/node-2", RED_1) == Attempt(
        "import", 1.5, 1.62, 1.25, RED_1, RED_2, "3:7", 0, "memory of red/node-2")
    assert parse("hold 1.50 9.00 1.25 red node-2 3:7 0 ", RED_1).text == ""
