"""Rows of the ledger against records of the topics, by identity: what is wrong with each.

Rows that are as they should be are left out by numpy, all at once; the rules are for the others, one identity
after the other. The functions run in Spark's Python workers, and in the audit's own process where rows are
few; they depend on numpy and pyarrow alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: The columns that are compared.
LEDGER: Final = (
    *("producer", "seq", "topic", "partition", "offset", "crc"),
    *("outcome", "acked_us", "via", "instance"),
)
RECORDS: Final = ("producer", "seq", "topic", "partition", "offset", "crc", "key_ok")
_PLACE: Final = ("topic", "partition", "offset")
#: Places that a finding names at most.
_NAMED: Final = 5
#: What is found, as Spark and as Arrow say it.
SCHEMA: Final = (
    "kind string, producer int, seq long, topic string, partition int, offset long, acked_us long, "
    "found_at array<struct<topic: string, partition: int, offset: long>>, via string, instance string"
)
_ARROW: Final = pa.schema({
    "kind": pa.string(), "producer": pa.int32(), "seq": pa.int64(),
    "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "acked_us": pa.int64(),
    "found_at": pa.list_(pa.struct({"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()})),
    "via": pa.string(), "instance": pa.string(),
})  # fmt: skip
#: The kinds of records that were acknowledged and of which there is no intact copy.
MISSING: Final = ("lost", "compacted")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Told:
    """What run.json says: rows that each generator wrote, whether the load ended properly, and of the topics
    which are compacted and where the log of (topic, partition) begins.
    """

    claimed: Mapping[int, int]
    complete: bool
    compacted: frozenset[str]
    expired: Mapping[tuple[str, int], int]

    def lacks(self, producer: int, seq: int) -> bool:
        """Return whether a record that no ledger row speaks of may have been sent.

        It may when its generator says that it wrote a row of that number, and when the load did not end
        properly: then the ledger may be cut off anywhere.
        """
        return not self.complete or seq < self.claimed.get(producer, 0)


def judged(ledger: Any, records: Any, told: Told) -> Any:
    """Name what is wrong with each identity (columns of :data:`SCHEMA`).

    Kinds that are no anomalies come along to be counted: ``unknown_found`` (a send with unknown or failed
    outcome that is in the topic), ``compacted`` and ``beyond_ledger`` (no evidence either way), and ``copy``
    (a place that holds a record again); and two that say that the evidence itself is none: ``ledger_twice``
    and ``same_place``.

    Args:
        ledger: an Arrow table of :data:`LEDGER`, all rows of some identities.
        records: an Arrow table of :data:`RECORDS`, all intact records of the same identities.
        told: what run.json says.
    """
    ledger, records = _others(ledger, records)
    found: list[Row] = []
    kept: dict[tuple[int, int], list[Row]] = {}
    for row in records.to_pylist():
        kept.setdefault((row["producer"], row["seq"]), []).append(row)
    rows: dict[tuple[int, int], list[Row]] = {}
    for row in ledger.to_pylist():
        rows.setdefault((row["producer"], row["seq"]), []).append(row)
    for who, places in kept.items():
        places.sort(key=_place)
        for row in rows.get(who, ({},)):
            found += _seen(who, row, places, len(rows.get(who, ())), told)
    for who, sent in rows.items():
        if who not in kept:
            found += [
                _missing(row, told) for row in sent if row["outcome"] == "acked" and not _gone(row, told)
            ]
    return pa.Table.from_pylist(found, _ARROW)


def _seen(who: tuple[int, int], row: Row, places: Sequence[Row], rows: int, told: Told) -> Iterator[Row]:
    """Give what is wrong with an identity that is in the topics; ``row`` is empty if no ledger knows it."""
    acked = row.get("outcome") == "acked"
    homes = [_place(place) for place in places]
    home = _place(row) if row else None
    flags = {
        "duplicated": len(homes) > 1,
        "ledger_twice": rows > 1,
        "same_place": len(set(homes)) < len(homes),
        "misplaced": acked and home not in homes,
        "corrupted": bool(row) and any(place["crc"] != row["crc"] for place in places),
        "wrong_key": bool(row) and any(place["key_ok"] is False for place in places),
        "unknown_found": bool(row) and not acked,
        "unexpected": not row and not told.lacks(*who),
        "beyond_ledger": not row and told.lacks(*who),
    }
    if not any(flags.values()):
        return
    shown: dict[str, Any] = {"producer": who[0], "seq": who[1]}
    for name in _PLACE:
        known = row.get(name)
        shown[name] = places[0][name] if known is None else known
    shown |= {"acked_us": row["acked_us"] if acked else None, "via": row.get("via")}
    shown["instance"] = row.get("instance")
    shown["found_at"] = [dict(zip(_PLACE, place, strict=True)) for place in homes[:_NAMED]]
    yield from (shown | {"kind": kind} for kind, flag in flags.items() if flag)
    # The one that counts is where it was acknowledged, else the first.
    first = homes.index(home) if home in homes else 0
    for number, place in enumerate(homes):
        if number != first:
            yield shown | dict(zip(_PLACE, place, strict=True)) | {"kind": "copy"}


def _missing(row: Row, told: Told) -> Row:
    names = ("producer", "seq", *_PLACE, "acked_us", "via", "instance")
    return {name: row[name] for name in names} | {
        "kind": "compacted" if row["topic"] in told.compacted else "lost"
    }


def _gone(row: Row, told: Told) -> bool:
    return bool(row["offset"] < told.expired.get((row["topic"], row["partition"]), -1))


def _place(row: Row) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


def _others(ledger: Any, records: Any) -> tuple[Any, Any]:
    """Leave out acknowledged records that are once on both sides, in their place and the same."""
    sent, held = len(ledger), len(records)
    if not sent or not held:
        return ledger, records
    who = [np.concatenate((_numbers(ledger, name), _numbers(records, name))) for name in ("seq", "producer")]
    order = np.lexsort(who)
    new = np.ones(sent + held, bool)
    new[1:] = np.logical_or.reduce([one[order][1:] != one[order][:-1] for one in who])
    code = np.empty(sent + held, np.int64)
    code[order] = np.cumsum(new) - 1
    mine, theirs = code[:sent], code[sent:]
    once = (np.bincount(mine, minlength=code.max() + 1) == 1) & (
        np.bincount(theirs, minlength=code.max() + 1) == 1
    )
    at = np.full(len(once), -1)
    at[theirs] = np.arange(held)
    left = np.flatnonzero(once[mine])
    pairs = at[mine[left]]
    one, two = ledger.take(pa.array(left)), records.take(pa.array(pairs))
    same = pc.equal(one["outcome"], "acked")
    for name in (*_PLACE, "crc"):
        same = pc.and_kleene(same, pc.equal(one[name], two[name]))
    same = pc.and_kleene(same, pc.fill_null(two["key_ok"], True))
    fine = pc.fill_null(same, False).to_numpy(zero_copy_only=False).astype(bool)
    return _without(ledger, left[fine]), _without(records, pairs[fine])


def _without(table: Any, rows: Any) -> Any:
    keep = np.ones(len(table), bool)
    keep[rows] = False
    return table.filter(pa.array(keep))


def _numbers(table: Any, name: str) -> Any:
    return table[name].to_numpy().astype(np.int64, copy=False)
