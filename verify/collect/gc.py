"""Pauses in the JVM's unified GC log (``-Xlog:gc*:file=...:time,uptime,level,tags``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

#: Each part has a bound: an expression that tries them all takes time with the square of a line's length.
_PAUSE: Final = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\dT[^\]]{1,40})\](?:\[[^\]]{1,80}\]){0,6}?\[gc *\] GC\(\d{1,12}\) "
    r"(?P<kind>Pause [ -~]{1,200}?)(?: \d{1,12}[KMG]->\d{1,12}[KMG]\(\d{1,12}[KMG]\))? "
    r"(?P<ms>\d{1,9}(?:\.\d{1,9})?)ms",
    re.ASCII,
)


class Pause(NamedTuple):
    """One pause: when it began (microseconds since the epoch), how long it took, the JVM's name for it."""

    at_us: int
    pause_us: int
    kind: str


def pauses(lines: Iterable[str], from_us: int, until_us: int) -> Iterator[Pause]:
    """Yield the pauses that overlap a time; lines that tell of no whole pause are passed over."""
    for line in lines:
        match = _PAUSE.fullmatch(line.rstrip())
        if match is None:
            continue
        try:
            ended = datetime.strptime(match["time"], "%Y-%m-%dT%H:%M:%S.%f%z")
        except ValueError:
            continue
        # The line is written when the pause is over.
        end_us = round(ended.timestamp() * 1_000_000)
        pause_us = round(float(match["ms"]) * 1000)
        if end_us >= from_us and end_us - pause_us <= until_us:
            yield Pause(end_us - pause_us, pause_us, match["kind"])
