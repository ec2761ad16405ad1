"""The one exception of the lab: what a person at the terminal is told."""

from __future__ import annotations

from pathlib import Path

LOG_TAIL_LINES = 30


class LabError(Exception):
    """A failure with a component's name and, where there is one, its log."""

    def __init__(self, message: str, *, component: str = "", log: Path | None = None):
        super().__init__(message)
        self.message = message
        self.component = component
        self.log = log

    def __str__(self) -> str:
        text = f"{self.component}: {self.message}" if self.component else self.message
        if self.log is None:
            return text
        return f"{text}\n--- end of {self.log} ---\n{tail(self.log)}"


def tail(path: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log, or why there are none."""
    try:
        with path.open("rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - lines * 1000))
            text = log.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error.strerror})"
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"
