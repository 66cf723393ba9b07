"""Waiting for what a test needs to have happened: it is looked at again and again, until time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

WAIT_S = 120.0

Found = TypeVar("Found")


def await_that(condition: Callable[[], Found], what: str, limit_s: float = WAIT_S) -> Found:
    """Wait until the condition holds and return what it gave; fails the test when it does not in time."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {limit_s:.0f} s in vain until {what}"
        time.sleep(0.02)
    return found
