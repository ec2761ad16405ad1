"""Which lab this is, and where its things are.

A lab belongs to a checkout: its name carries a hash of the checkout's path, so
the labs of two checkouts never meet. One checkout may run several labs by
giving them instance names.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

STATE_ROOT = Path("/var/lib/computedomain-lab")
CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Identity:
    checkout: Path
    instance: str = ""
    state_root: Path = STATE_ROOT

    @property
    def name(self) -> str:
        """Names the lab's cgroup and state folder, and shows in `ps`."""
        text = f"{self.checkout}\0{self.instance}"
        return "computedomain-lab-" + hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def state(self) -> Path:
        return self.state_root / self.name


def cache_root() -> Path:
    """Built programs live here; they outlive every lab and are keyed by content."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "computedomain-lab"
