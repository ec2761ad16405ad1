"""docs/troubleshooting.md says what the code says: every refusal is in its table, and every text of the table is in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
SOURCES = {path: path.read_text() for folder in ("domain", "controller", "plugin", "fabric") for path in sorted((ROOT / "src" / folder).glob("*.cc"))
           + sorted((ROOT / "src" / folder).glob("*.h")) if not path.name.endswith("_test.cc")}


def joined(text: str) -> str:
    """Adjacent C++ string literals as the compiler sees them: one."""
    return re.sub(r'"\s*\n\s*"', "", text)


CODE = "\n".join(joined(text) for text in SOURCES.values())


def rows(section: str) -> list[list[str]]:
    body = PAGE.split(f"## {section}")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines() if line.startswith("|")]
    return cells[2:]


REFUSALS = rows("Refusals")
ACCEPTED = rows("Reasons of the condition Accepted")
EVENTS = rows("Events alone")
FORMED = rows("Reasons of the condition Formed while pods are held by gating")
WAITING = rows("Waiting")
BY_THE_NODE = rows("Refused by the node")


def test_every_refusal_of_the_code_is_in_the_table() -> None:
    made = {reason for text in SOURCES.values() for reason in re.findall(r'(?:Make|Refuse)\(\s*demand,\s*"([A-Z]\w+)"', text)}
    assert len(made) > 8
    assert made == {row[0].strip("`") for row in REFUSALS}


def test_every_reason_not_to_accept_is_in_the_table() -> None:
    made = set(re.findall(r'"Accepted",\s*"False",\s*"([A-Z]\w+)"', (ROOT / "src/domain/cd_status.cc").read_text()))
    assert made == {row[0].strip("`") for row in ACCEPTED}


def test_every_reason_of_events_alone_is_in_the_table() -> None:
    made = set(re.findall(r'TellInEvent\([^;]*?"([A-Z]\w+)"', SOURCES[ROOT / "src/controller/compute_domain_reconciler.cc"]))
    assert made == {row[0].strip("`") for row in EVENTS}


def test_every_reason_of_held_pods_is_in_the_table() -> None:
    gating = (ROOT / "src/domain/gating.cc").read_text() + (ROOT / "src/domain/gating.h").read_text()
    made = set(re.findall(r'(?:return|Formed\(\w+,)\s*\{?\s*"([A-Z]\w+)"', gating)) | set(re.findall(r'kGateTimedOut\[\] = "(\w+)"', gating))
    assert made - {"Formed", "NoNodes"} == {row[0].strip("`") for row in FORMED}


@pytest.mark.parametrize("row", REFUSALS + EVENTS + FORMED, ids=lambda row: row[0].strip("`"))
def test_reason_and_text_are_what_the_code_can_say(row: list[str]) -> None:
    assert f'"{row[0].strip("`")}"' in CODE
    assert row[1] in CODE, f"no source says: {row[1]}"
    assert row[-1], "a remedy"


@pytest.mark.parametrize("row", WAITING + BY_THE_NODE, ids=lambda row: row[0][:40])
def test_waiting_text_is_what_the_code_can_say(row: list[str]) -> None:
    assert row[0] in CODE, f"no source says: {row[0]}"
