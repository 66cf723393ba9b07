"""Where sequence numbers go down along the offsets of a partition: the stretches that order is judged in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from spark_checks.engine.folds import AROUND
from spark_checks.engine.one_pass import Folded

#: Partition of a topic, and producer: within these order is promised.
KEYS: Final = ("topic", "partition", "producer")
Key = tuple[str, int, int]
#: First and last offset.
Stretch = tuple[int, int]
#: All that a partition holds of a producer.
WHOLE: Final[Stretch] = (0, (1 << 63) - 1)
#: Where there are more stretches than these the whole is looked at.
_MOST: Final = 64


def stretches(parts: Folded, beside: int, whole: set[int]) -> dict[Key, list[Stretch]]:
    """Return where intact records stand before one that they had to follow, with enough of what is around.

    Of two records that follow on one another when some others are left out, the first can only have the
    higher number if numbers go down somewhere between them. So where at most ``beside`` records are left out,
    the stretches that reach over as many and one more on both sides of each fall hold all such pairs.

    Args:
        parts: spans and falls of the records (see ``folds.rising``).
        beside: how many intact records are left out later at most.
        whole: producers of which all records of a partition are needed when one falls.
    """
    spans: dict[Key, list[Mapping[str, Any]]] = defaultdict(list)
    falls: dict[Key, list[Mapping[str, Any]]] = defaultdict(list)
    for name, into in (("spans", spans), ("falls", falls)):
        for row in parts.rows(name):
            into[row["topic"], row["partition"], row["producer"]].append(row)
    found: dict[Key, list[Stretch]] = {}
    for key, mine in spans.items():
        mine.sort(key=lambda one: one["from_offset"])
        mixed = any(not one["sorted"] for one in mine) or any(
            after["from_offset"] <= before["to_offset"] for before, after in pairwise(mine)
        )
        between = [n for n, (one, two) in enumerate(pairwise(mine), 1) if two["first_seq"] <= one["last_seq"]]
        if not (mixed or between or falls[key]):
            continue
        if mixed or key[2] in whole or beside >= AROUND:
            found[key] = [WHOLE]
            continue
        some = [(_back(mine, n - 1, beside), _ahead(mine, n, beside)) for n in between]
        some = _joined(some + _inside(mine, falls[key], beside))
        found[key] = some if len(some) <= _MOST else [WHOLE]
    return found


def _inside(
    spans: Sequence[Mapping[str, Any]], falls: Sequence[Mapping[str, Any]], beside: int
) -> list[Stretch]:
    """Return the stretches around falls within spans; those cut off at a span's end reach over it."""
    begins = {one["from_offset"]: number for number, one in enumerate(spans)}
    ends = {one["to_offset"]: number for number, one in enumerate(spans)}
    found = []
    for one in falls:
        begin, end = one["from_offset"], one["to_offset"]
        before, after = begins.get(begin, 0), ends.get(end, len(spans) - 1)
        found.append((
            _back(spans, before - 1, beside) if before else begin,
            _ahead(spans, after + 1, beside) if after < len(spans) - 1 else end,
        ))  # fmt: skip
    return found


def _back(spans: Sequence[Mapping[str, Any]], number: int, beside: int) -> int:
    """Return where a span begins so that more than ``beside`` records lie from there to that one's end."""
    rows = 0
    for at in range(number, -1, -1):
        rows += spans[at]["rows"]
        if rows > beside:
            return int(spans[at]["from_offset"])
    return 0


def _ahead(spans: Sequence[Mapping[str, Any]], number: int, beside: int) -> int:
    rows = 0
    for one in spans[number:]:
        rows += one["rows"]
        if rows > beside:
            return int(one["to_offset"])
    return WHOLE[1]


def _joined(some: list[Stretch]) -> list[Stretch]:
    """Return stretches of which none touches another."""
    found: list[Stretch] = []
    for begin, end in sorted(some):
        if found and begin <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found
