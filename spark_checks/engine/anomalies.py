"""What the hops share: digests of blocks of rows, and counted findings with a few examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from spark_checks.engine.folds import BLOCK_BITS
from spark_checks.results import Anomaly

_EXAMPLES: Final[ContextVar[int]] = ContextVar("examples", default=10)
#: As many blocks are named in a filter.
_NAMED_BLOCKS: Final = 32
#: What a digest consists of.
PARTS: Final = ("count", "xor", "sum")


def examples() -> int:
    """Return how many examples of each anomaly are shown."""
    return _EXAMPLES.get()


@contextmanager
def showing(count: int) -> Iterator[None]:
    """Show that many examples of each anomaly meanwhile."""
    before = _EXAMPLES.set(count)
    try:
        yield
    finally:
        _EXAMPLES.reset(before)


def block(column: str) -> Column:
    """Return the number of the block that a sequence number or an offset falls into."""
    return F.shiftright(column, BLOCK_BITS).alias("block")


def digest(hashed: Column, prefix: str) -> list[Column]:
    """Return aggregates that are equal for two blocks exactly when they hold the same rows.

    Count, xor and sum of a 64-bit hash (null where a row does not take part). The sum takes the upper half
    of the hash alone, so that it cannot overflow. Two different blocks agree by chance in about one of 2^64.
    """
    return [
        F.count(hashed).alias(f"{prefix}_count"),
        F.coalesce(F.bit_xor(hashed), F.lit(0).cast("long")).alias(f"{prefix}_xor"),
        F.coalesce(F.sum(F.shiftrightunsigned(hashed, 32)), F.lit(0).cast("long")).alias(f"{prefix}_sum"),
    ]


def differs(ours: str, theirs: str) -> Column:
    """Return whether the digests of two sides are not the same; a side that is absent has no rows."""
    same = F.lit(True)
    for part in PARTS:
        one = F.coalesce(F.col(f"{ours}_{part}"), F.lit(0).cast("long"))
        same = same & (one == F.coalesce(F.col(f"{theirs}_{part}"), F.lit(0).cast("long")))
    return (~same).alias("differs")


def only_blocks(
    rows: DataFrame, blocks: DataFrame, keys: Sequence[str], column: str, *, inside: bool = True
) -> DataFrame:
    """Return the rows that lie in the given blocks, or outside of them; blocks are few and are broadcast."""
    return (
        rows.withColumn("block", block(column))
        .join(F.broadcast(blocks), [*keys, "block"], "semi" if inside else "anti")
        .drop("block")
    )


def in_blocks(
    rows: DataFrame,
    blocks: Sequence[tuple[Any, ...]],
    keys: Sequence[str],
    column: str,
    *,
    inside: bool = True,
) -> DataFrame:
    """Return the rows that lie in the given blocks, or outside of them.

    A few blocks are named in a filter, by which Spark leaves out the parts of files that cannot hold them.

    Args:
        rows: rows with the keys and the column, none of them null in a row that lies in a block.
        blocks: the keys' values and the number of the block.
        keys: see there.
        column: a sequence number or an offset.
        inside: which rows are returned.
    """
    if len(blocks) <= _NAMED_BLOCKS:
        named = reduce(Column.__or__, (_within(one, keys, column) for one in blocks), F.lit(False))
        return rows.where(named if inside else ~F.coalesce(named, F.lit(False)))
    schema = StructType([*rows.select(*keys).schema.fields, StructField("block", LongType())])
    return only_blocks(
        rows, rows.sparkSession.createDataFrame(list(blocks), schema), keys, column, inside=inside
    )


def _within(one: tuple[Any, ...], keys: Sequence[str], column: str) -> Column:
    first = one[-1] << BLOCK_BITS
    there = F.col(column).between(first, first + (1 << BLOCK_BITS) - 1)
    return reduce(Column.__and__, (F.col(key) == value for key, value in zip(keys, one, strict=False)), there)


def tally(
    found: DataFrame | pa.Table | Sequence[Mapping[str, Any]], order: Sequence[str]
) -> dict[str, Anomaly]:
    """Count findings by their column ``kind`` and take the first few of each.

    Args:
        found: columns ``kind``, those that an example shows (nulls and names that begin with an underscore
            are left out), and ``_times`` where one finding counts more than once; a list of rows has none.
        order: the columns that say which come first.
    """
    if isinstance(found, pa.Table):
        return _tally_here(found, order)
    if isinstance(found, Sequence):
        return _tally_rows(found, order)
    window = Window.partitionBy("kind").orderBy(*order)
    whole = window.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    times = F.col("_times") if "_times" in found.columns else F.lit(1)
    rows = (
        found.withColumn("_n", F.row_number().over(window))
        .withColumn("_count", F.sum(times).over(whole))
        .where(F.col("_n") <= examples())
        .orderBy("kind", "_n")
        .collect()
    )
    result: dict[str, Anomaly] = {}
    for row in rows:
        example = _example(row.asDict(recursive=True))
        before = result.get(row["kind"])
        result[row["kind"]] = Anomaly(row["_count"], ((*before.examples, example) if before else (example,)))
    return result


def _tally_here(found: pa.Table, order: Sequence[str]) -> dict[str, Anomaly]:
    result = {}
    for kind in sorted(found["kind"].unique().to_pylist()):
        mine = found.filter(pc.field("kind") == kind)
        at = pc.sort_indices(mine, [(name, "ascending", "at_start") for name in order])
        first = mine.take(at[: examples()]).to_pylist()
        count = pc.sum(mine["_times"]).as_py() if "_times" in mine.column_names else mine.num_rows
        result[kind] = Anomaly(count, tuple(_example(row) for row in first))
    return result


def _tally_rows(found: Sequence[Mapping[str, Any]], order: Sequence[str]) -> dict[str, Anomaly]:
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(found, key=lambda row: [row["kind"], *(row[name] for name in order)]):
        by_kind.setdefault(row["kind"], []).append(row)
    return {
        kind: Anomaly(len(rows), tuple(_example(row) for row in rows[: examples()]))
        for kind, rows in by_kind.items()
    }


def _example(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in row.items()
        if value is not None and key != "kind" and not key.startswith("_")
    }


def add(one: Mapping[str, Anomaly], other: Mapping[str, Anomaly]) -> dict[str, Anomaly]:
    """Return two tallies as one."""
    result = dict(one)
    for kind, more in other.items():
        before = result.get(kind, Anomaly(0))
        result[kind] = Anomaly(before.count + more.count, (before.examples + more.examples)[: examples()])
    return result
