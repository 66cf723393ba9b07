"""What a process has come to, by what it printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def missing_step(printed: str, steps: Iterable[Sequence[str]]) -> str | None:
    """Return the first step of which nothing is printed after the one before it, or None.

    ``steps`` are pairs: what is waited for, and the pattern that shows it.
    """
    at = 0
    for what, pattern in steps:
        found = re.compile(pattern).search(printed, at)
        if found is None:
            return f"nothing in the journal says that it {what}"
        at = found.end()
    return None
