"""Records of a topic against what a group got, by position: what is wrong with each.

Positions that are as they should be are left out by numpy, all at once; the rules are for the others. The
functions run in Spark's Python workers, and in the audit's own process where rows are few; they depend on
numpy and pyarrow alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PLACE: Final = ("group", "topic", "partition")
#: Consumers that a finding names at most.
_NAMED: Final = 5
#: What is found, as Spark and as Arrow say it.
SCHEMA: Final = (
    "kind string, group string, topic string, partition int, offset long, producer int, seq long, "
    "delivered struct<producer: int, seq: long>, consumers array<string>, times long, _times long"
)
_ARROW: Final = pa.schema({
    "kind": pa.string(), "group": pa.string(), "topic": pa.string(), "partition": pa.int32(),
    "offset": pa.int64(), "producer": pa.int32(), "seq": pa.int64(),
    "delivered": pa.struct({"producer": pa.int32(), "seq": pa.int64()}),
    "consumers": pa.list_(pa.string()), "times": pa.int64(), "_times": pa.int64(),
})  # fmt: skip


def judged(wanted: Any, got: Any) -> Any:
    """Name what is wrong with each position (columns of :data:`SCHEMA`).

    ``delivered`` is another identity than the topic holds, ``times`` how often a position was delivered,
    ``_times`` how often a finding counts.

    Args:
        wanted: an Arrow table of the records of some positions: :data:`PLACE`, offset, producer, seq.
        got: the deliveries of the same positions, with consumer.
    """
    found: list[dict[str, Any]] = []
    for place in sorted({one for side in (wanted, got) for one in _places(side)}):
        one, two, three = (pc.field(name) == value for name, value in zip(PLACE, place, strict=True))
        sides = (side.filter(one & two & three) for side in (wanted, got))
        found += [dict(zip(PLACE, place, strict=True)) | row for row in _of_place(*sides)]
    return pa.Table.from_pylist(found, _ARROW)


def _places(rows: Any) -> Iterator[tuple[Any, ...]]:
    for row in rows.group_by(list(PLACE), use_threads=False).aggregate([]).to_pylist():
        yield tuple(row[name] for name in PLACE)


def _of_place(wanted: Any, got: Any) -> Iterator[dict[str, Any]]:
    fine_here, fine_there = _fine(wanted, got)
    held = {row["offset"]: row for row in wanted.filter(pa.array(~fine_here)).to_pylist()}
    given: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in got.filter(pa.array(~fine_there)).to_pylist():
        given[row["offset"]].append(row)
    for offset in sorted({*held, *given}):
        row, copies = held.get(offset), given.get(offset, [])
        who = [(one["producer"], one["seq"]) for one in copies]
        ours = None if row is None else (row["producer"], row["seq"])
        mismatched = ours is not None and any(one != ours for one in who)
        flags = {
            "undelivered": not who,
            "redelivered": len(who) > 1,
            "mismatched": mismatched,
            "phantom": ours is None,
        }
        shown = {
            **dict(zip(("offset", "producer", "seq"), (offset, *(ours or min(who))), strict=True)),
            "delivered": dict(zip(("producer", "seq"), max(who), strict=True)) if mismatched else None,
            "consumers": sorted({one["consumer"] for one in copies})[:_NAMED] or None,
            "times": len(who) or None,
        }
        for kind, flag in flags.items():
            if flag:
                yield shown | {"kind": kind, "_times": len(who) - 1 if kind == "redelivered" else 1}


def _fine(wanted: Any, got: Any) -> tuple[Any, Any]:
    """Return which rows of both sides are the only ones of their position, and the same record."""
    ours, theirs = np.zeros(len(wanted), bool), np.zeros(len(got), bool)
    if not len(wanted) or not len(got):
        return ours, theirs
    offsets, first, counts = np.unique(got["offset"].to_numpy(), return_index=True, return_counts=True)
    at = np.searchsorted(offsets, wanted["offset"].to_numpy())
    at[at == len(offsets)] = 0
    same = (offsets[at] == wanted["offset"].to_numpy()) & (counts[at] == 1)
    for name in ("producer", "seq"):
        same &= wanted[name].to_numpy() == got[name].to_numpy()[first[at]]
    ours[same] = True
    theirs[first[at[same]]] = True
    return ours, theirs
