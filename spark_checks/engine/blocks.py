"""Digests of blocks of rows, by which two tables are compared before any of their rows are brought together.

A block is 65,536 sequence numbers of a producer, or as many offsets of a partition: large enough that digests
are few, small enough that the exact join after one missing record reads little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

#: Rows a block, as a power of two.
BLOCK_BITS: Final = 16
#: As many blocks are named in a filter.
_NAMED_BLOCKS: Final = 32


class Digest(NamedTuple):
    """How many rows a block holds, and two sums of hashes of them, modulo 2^64.

    Blocks of the same rows have the same digest, however rows are ordered and spread over files. Blocks of
    different rows have the same one by chance in about one of 2^64.
    """

    rows: int = 0
    one: int = 0
    two: int = 0


def block(column: str) -> Column:
    """Return the number of the block that a sequence number or an offset falls into."""
    return F.shiftright(column, BLOCK_BITS).alias("block")


def digest(hashed: Column, prefix: str = "") -> list[Column]:
    """Return the aggregates of a :class:`Digest`: rows, one, two; null in ``hashed`` takes no part.

    The sums wrap: the session must not have ANSI arithmetic on.
    """
    return [
        F.count(hashed).alias(f"{prefix}rows"),
        F.coalesce(F.sum(hashed), F.lit(0).cast("long")).alias(f"{prefix}one"),
        F.coalesce(F.sum(F.xxhash64(hashed)), F.lit(0).cast("long")).alias(f"{prefix}two"),
    ]


def summed(table: pa.Table, keys: Sequence[str], values: Sequence[str]) -> pa.Table:
    """Return sums by key of collected rows; those of hashes wrap, as Spark's do."""
    found = table.group_by(list(keys), use_threads=False).aggregate([(name, "sum") for name in values])
    return found.rename_columns([name.removesuffix("_sum") for name in found.column_names])


def digests(table: pa.Table, keys: Sequence[str], prefix: str = "") -> dict[tuple[Any, ...], Digest]:
    """Return the digest of each key from collected rows that hold parts of them."""
    parts = [f"{prefix}{part}" for part in Digest._fields]
    whole = summed(table, keys, parts)
    columns = (whole[name].to_pylist() for name in (*keys, *parts))
    return {tuple(key): Digest(rows, one, two) for *key, rows, one, two in zip(*columns, strict=True)}


def differing(ours: Mapping[Any, Digest], theirs: Mapping[Any, Digest]) -> set[Any]:
    """Return the keys of which both sides do not hold the same rows; a side that is absent holds none."""
    return {key for key in {*ours, *theirs} if ours.get(key, Digest()) != theirs.get(key, Digest())}


def in_blocks(
    rows: DataFrame,
    blocks: Iterable[tuple[Any, ...]],
    keys: Sequence[str],
    column: str,
    *,
    inside: bool = True,
) -> DataFrame:
    """Return the rows that lie in the given blocks, or outside of them.

    A few blocks are named in a filter, by which Spark leaves out the parts of files that cannot hold them;
    more are broadcast.

    Args:
        rows: rows with the keys and the column, none of them null in a row that lies in a block.
        blocks: the keys' values and the number of the block.
        keys: the columns of the keys, in the order of the blocks' values.
        column: a sequence number or an offset.
        inside: which rows are returned.
    """
    some = sorted(blocks)
    if len(some) <= _NAMED_BLOCKS:
        named = reduce(Column.__or__, (_within(one, keys, column) for one in some), F.lit(False))
        return rows.where(named if inside else ~F.coalesce(named, F.lit(False)))
    schema = StructType([*rows.select(*keys).schema.fields, StructField("block", LongType())])
    wanted = rows.sparkSession.createDataFrame(some, schema)
    how = "semi" if inside else "anti"
    return (
        rows.withColumn("block", block(column)).join(F.broadcast(wanted), [*keys, "block"], how).drop("block")
    )


def _within(one: tuple[Any, ...], keys: Sequence[str], column: str) -> Column:
    first = one[-1] << BLOCK_BITS
    there = F.col(column).between(first, first + (1 << BLOCK_BITS) - 1)
    return reduce(Column.__and__, (F.col(key) == value for key, value in zip(keys, one, strict=False)), there)
