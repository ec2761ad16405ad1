"""The judge of updates: what polling overlooks is not overlooked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.client import NODE, Kind, Object

from .rollouts import slice_gaps

Event = tuple[str, Object]


def offer(node: str, version: str, devices: int = 1) -> Object:
    return {"metadata": {"name": f"{node}-slice", "resourceVersion": version}, "spec": {"nodeName": node, "devices": [{}] * devices}}


class Told:
    """A cluster of two nodes whose slices went through these events."""

    def __init__(self, events: list[Event], now: list[Object]) -> None:
        self._events, self._now = events, now

    def list(self, kind: Kind, **_: str) -> list[Object]:
        return [{"metadata": {"name": name}} for name in ("a", "b")] if kind == NODE else self._now

    def watch(self, _: Kind, **query: Any) -> Iterator[Event]:
        assert query["resourceVersion"] == "10"
        yield from self._events


BEFORE = [offer("a", "1"), offer("b", "2")]


@pytest.mark.parametrize(("events", "now", "gaps"), [
    ([], BEFORE, []),
    ([("MODIFIED", offer("a", "11"))], [offer("a", "11"), offer("b", "2")], []),
    ([("DELETED", offer("a", "11")), ("ADDED", offer("a", "12"))], [offer("a", "12"), offer("b", "2")], ["a after DELETED a-slice"]),
    ([("MODIFIED", offer("b", "11", devices=0)), ("MODIFIED", offer("b", "12"))], [offer("a", "1"), offer("b", "12")], ["b after MODIFIED b-slice"]),
], ids=["nothing-happened", "changed", "away-for-a-moment", "empty-for-a-moment"])
def test_a_node_without_an_offer_is_told_however_short_it_was(events: list[Event], now: list[Object], gaps: list[str]) -> None:
    assert slice_gaps(Told(events, now), BEFORE, "10") == gaps  # type: ignore[arg-type]


def test_history_that_ends_early_is_no_proof() -> None:
    with pytest.raises(AssertionError, match="did not tell all"):
        slice_gaps(Told([], [offer("a", "11"), offer("b", "2")]), BEFORE, "10")  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="history"):
        slice_gaps(Told([("ERROR", {"code": 410})], [offer("a", "11"), offer("b", "2")]), BEFORE, "10")  # type: ignore[arg-type]
