"""What an instance has printed, by its host's journal."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Sequence

#: What a message shows of the journal of an instance that failed.
JOURNAL_LINES = 25
#: How long it may take to answer; what it has is shown beside a message, which stands without it.
ANSWER_SECONDS = 60


def last_lines(unit: str) -> str:
    """Return the last lines that a unit printed."""
    return _journalctl("-u", unit, "-n", str(JOURNAL_LINES), "-o", "cat").strip()


def last_printed_us(unit: str) -> int | None:
    """Return when a unit printed its last line, in microseconds since the epoch; None for none."""
    try:
        return int(json.loads(_journalctl("-u", unit, "-n", "1", "-o", "json"))["__REALTIME_TIMESTAMP"])
    except (ValueError, LookupError, TypeError):
        return None


def printed_by(invocation: str) -> str:
    """Return what a unit has printed since it was started, by the id of that start."""
    return _journalctl(f"_SYSTEMD_INVOCATION_ID={invocation}", "-o", "cat")


def _journalctl(*asked: str) -> str:
    command = ["journalctl", *asked, "--no-pager"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=ANSWER_SECONDS
        ).stdout
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""


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
