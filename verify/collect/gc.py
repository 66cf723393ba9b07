"""Pauses in the JVM's unified GC log (``-Xlog:gc*:file=...:time,uptime,level,tags``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

_PAUSE: Final = re.compile(
    r"^\[(?P<time>\d{4}-\d\d-\d\dT[^\]]+)\].*\[gc\s*\] GC\(\d+\) (?P<kind>Pause .+?)"
    r"(?: \d+[KMG]->\d+[KMG]\(\d+[KMG]\))? (?P<ms>\d+(?:\.\d+)?)ms$"
)


class Pause(NamedTuple):
    """One pause: when it began (microseconds since the epoch), how long it took, the JVM's name for it."""

    at_us: int
    pause_us: int
    kind: str


def pauses(lines: Iterable[str], from_us: int, until_us: int) -> Iterator[Pause]:
    """Yield the pauses that overlap a time; lines that tell of no whole pause are passed over."""
    for line in lines:
        match = _PAUSE.match(line.rstrip())
        if match is None:
            continue
        # The line is written when the pause is over.
        end_us = round(datetime.strptime(match["time"], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp() * 1_000_000)
        pause_us = round(float(match["ms"]) * 1000)
        if end_us >= from_us and end_us - pause_us <= until_us:
            yield Pause(end_us - pause_us, pause_us, match["kind"])
