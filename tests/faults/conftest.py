"""A failed fault ends its series: what follows would tell of it again."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.option.maxfail = 1
