"""Progress lines on stderr, so that stdout stays for what a command prints."""

from __future__ import annotations

import sys
import time

_started = time.monotonic()


def say(text: str) -> None:
    print(f"[lab {time.monotonic() - _started:6.1f} s] {text}", file=sys.stderr, flush=True)
