"""The records of a topic as one number a partition that tells any other sequence of records from it.

A partition's number is a polynomial in the hashes of its records, in the order of their offsets: what two
tasks have seen one after the other is put together without the records. Where source and target of a mirror
have the same numbers, every record is there, unaltered, once and in its place in the order. The functions run
in Spark's Python workers and depend on numpy and pyarrow alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_checks.engine.folds import BATCH
from spark_checks.engine.grouping import Groups, factor, finished

COLUMNS: Final = (
    *("cluster", "topic", "partition", "offset", "timestamp_us", "timestamp_type"),
    *("producer", "crc_ok", "key_hash", "value_hash", "headers_hash"),
)
_KEYS: Final = ("cluster", "topic", "partition")
_CONTENT: Final = ("key_hash", "value_hash", "headers_hash")
#: Two polynomials, each with and without the timestamps: which of them counts is known in the end.
_HASHES: Final = ("one", "two", "one_stamped", "two_stamped")
_FACTORS: Final = [{name: factor(f"{name} {n}") for name in (*_CONTENT, "timestamp_us")} for n in (1, 2)]
_BASES: Final = (factor("base 1"), factor("base 2"))
NO: Final = pa.scalar(value=False)
_WHOLE: Final = (1 << 64) - 1


@dataclass(frozen=True)
class Partition:
    """A partition, or what was seen of it: how many records, of these by content and with append times, and
    the numbers of its sequence, which two different sequences share by chance in about one of 2^90.
    """

    rows: int = 0
    by_content: int = 0
    append: int = 0
    numbers: tuple[int, int, int, int] = (0, 0, 0, 0)

    def then(self, more: Partition) -> Partition:
        """Return this with what comes after it."""
        shifts = [pow(int(base), more.rows, 1 << 64) for base in _BASES] * 2
        numbers = [
            (mine * shift + theirs) & _WHOLE
            for mine, shift, theirs in zip(self.numbers, shifts, more.numbers, strict=True)
        ]
        return Partition(
            self.rows + more.rows,
            self.by_content + more.by_content,
            self.append + more.append,
            (numbers[0], numbers[1], numbers[2], numbers[3]),
        )


@dataclass(frozen=True)
class Topic:
    """The partitions that hold records; ``in_order`` unless tasks saw stretches of one that overlap."""

    partitions: tuple[Partition, ...] = ()
    in_order: bool = True

    @property
    def rows(self) -> int:
        """How many records the topic holds."""
        return sum(one.rows for one in self.partitions)

    def same_as(self, other: Topic, *, stamped: bool) -> bool:
        """Return whether each partition's records are those of one of the other's, in their order.

        False where that is not known.
        """
        at = slice(2, 4) if stamped else slice(0, 2)
        mine, theirs = (
            sorted((one.rows, one.numbers[at]) for one in topic.partitions) for topic in (self, other)
        )
        return self.in_order and other.in_order and mine == theirs


def stretches(tables: Iterable[Any], topics: frozenset[tuple[str, str]]) -> list[Any]:
    """Fold Arrow tables of records along their offsets: a row a partition and batch, as Arrow tables."""
    return [part for rows in tables for batch in rows.to_batches(BATCH) for part in _folded(batch, topics)]


def _folded(batch: Any, topics: frozenset[tuple[str, str]]) -> Iterator[Any]:
    if not batch.num_rows:
        return
    groups = Groups(batch, _KEYS)
    named = zip(groups.key("cluster"), groups.key("topic"), strict=True)
    if not groups.only([topic in topics for topic in named]):
        return
    offset, at = groups.numbers("offset"), groups.starts
    unsorted = np.concatenate(([False], groups.inside() & (offset[1:] <= offset[:-1])))
    behind = groups.each(at + groups.lengths) - np.arange(groups.rows) - 1
    sums = {}
    for number, (base, factors) in enumerate(zip(_BASES, _FACTORS, strict=True)):
        powers = np.multiply.accumulate(np.full(BATCH, base, np.uint64))
        weight = np.where(behind > 0, powers[behind - 1], np.uint64(1))
        plain = sum(groups.numbers(name, 0).view(np.uint64) * factors[name] for name in _CONTENT)
        stamped = plain + groups.numbers("timestamp_us").view(np.uint64) * factors["timestamp_us"]
        for name, mixed in ((_HASHES[number], plain), (_HASHES[number + 2], stamped)):
            sums[name] = np.add.reduceat(finished(mixed) * weight, at)
    known = pc.and_(_column(batch, "producer").is_valid(), pc.fill_null(_column(batch, "crc_ok"), NO))
    appended = pc.fill_null(pc.equal(_column(batch, "timestamp_type"), "append"), NO)
    counts = {
        name: np.add.reduceat(groups.ordered(flag.to_numpy(zero_copy_only=False)).astype(np.int64), at)
        for name, flag in (("by_content", pc.invert(known)), ("append", appended))
    }
    yield groups.table(np.arange(len(at)), _KEYS, {
        "from_offset": offset[at],
        "to_offset": offset[at + groups.lengths - 1],
        "sorted": ~np.logical_or.reduceat(unsorted, at),
        "rows": groups.lengths,
        **counts,
        **sums,
    })  # fmt: skip


def _column(batch: Any, name: str) -> Any:
    return batch.column(batch.schema.get_field_index(name))


def put_together(parts: Iterable[Any]) -> Mapping[tuple[str, str], Topic]:
    """Return what was seen of each (cluster, topic) that holds records."""
    seen: dict[tuple[str, str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for part in parts:
        for row in part.to_pylist():
            seen[row["cluster"], row["topic"], row["partition"]].append(row)
    found: dict[tuple[str, str], Topic] = {}
    for (cluster, topic, _), rows in seen.items():
        rows.sort(key=lambda row: (row["from_offset"], row["to_offset"]))
        apart = all(one["to_offset"] < two["from_offset"] for one, two in pairwise(rows))
        whole = Partition()
        for row in rows:
            numbers = tuple(row[name] for name in _HASHES)
            whole = whole.then(Partition(row["rows"], row["by_content"], row["append"], numbers))
        before = found.setdefault((cluster, topic), Topic())
        one_after_another = before.in_order and apart and all(row["sorted"] for row in rows)
        found[cluster, topic] = Topic((*before.partitions, whole), one_after_another)
    return found
