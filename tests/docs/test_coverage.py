"""docs/field-issues-coverage.md names tests: they must exist, and its rows must be whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "field-issues-coverage.md"
# Rows without a test in software: they need hardware, or were never explained.
LEFT_OUT = {50, 67, 71, 81}
# `file: Suite.case` or `file::test`, and the case of its table in brackets.
REFERENCE = re.compile(r"`([\w/.-]+\.(?:cc|py))(?:: (\w+)\.(\w+)|::(\w+))`(?: \[(\w+)\])?")


def rows() -> dict[str, str]:
    """First cell → line, of every row of the page's tables."""
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| [0-9DS]", line)]
    found = {line.split("|")[1].strip(): line for line in lines}
    assert len(found) == len(lines), "a row stands twice"
    return found


def references() -> list[tuple[str, str, str, str, str]]:
    return sorted(set(REFERENCE.findall(PAGE.read_text())))


@pytest.mark.parametrize(("file", "suite", "case", "function", "parameter"), references(), ids=lambda value: value or "-")
def test_a_named_test_exists(file: str, suite: str, case: str, function: str, parameter: str) -> None:
    source = (ROOT / file).read_text()
    pattern = rf"^def {function}\(" if function else rf"^TEST(_F|_P)?\({suite}, {case}\)"
    assert re.search(pattern, source, re.MULTILINE), f"{file} has no such test"
    assert not parameter or f'"{parameter}"' in source, f"{file} has no case {parameter}"


def test_every_row_is_there_and_says_something() -> None:
    found = rows()
    numbers = {int(row) for row in found if row.isdigit()}
    assert numbers == set(range(1, 117)) - LEFT_OUT
    silent = [row for row, line in found.items()
              if not REFERENCE.search(line) and not re.search(r"cannot|\*\*open\*\*|as row \d+|simulation", line, re.IGNORECASE)]
    assert not silent, "rows with neither test nor reason"


def test_no_reference_is_misspelt() -> None:
    """Whatever looks like a file of tests in backticks is a reference this module understands."""
    spans = re.findall(r"`([^`]*_test\.cc[^`]*|tests/[^`]*\.py[^`]*)`", PAGE.read_text())
    assert [span for span in spans if not REFERENCE.fullmatch(f"`{span}`")] == []
