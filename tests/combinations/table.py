"""Expected and observed rows, one above the other."""

from __future__ import annotations

from dataclasses import dataclass, field

from .rules import Combination, Row, Stage


@dataclass(frozen=True)
class Entry:
    combination: Combination
    stage: Stage
    expected: Row
    observed: Row

    @property
    def differing(self) -> list[str]:
        return [column for column in self.expected if self.expected[column] != self.observed[column]]


@dataclass
class Table:
    entries: list[Entry] = field(default_factory=list)

    def differences(self) -> list[str]:
        return [f"{e.combination.name}, {e.stage}: {column} is {e.observed[column]!r}, expected {e.expected[column]!r}"
                for e in self.entries for column in e.differing]

    def text(self) -> str:
        """A line for what was expected and one for what was observed, each with all cells."""
        columns = list(self.entries[0].expected) if self.entries else []
        lines = [["combination", "stage", "", *columns]]
        for entry in self.entries:
            verdict = "observed" if not entry.differing else "OBSERVED"
            lines.append([entry.combination.name, entry.stage, "expected", *entry.expected.values()])
            lines.append(["", "", verdict, *(entry.observed[column] for column in columns)])
        widths = [min(40, max(len(line[number]) for line in lines)) for number in range(len(lines[0]))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)
