"""Digests of blocks of rows, by which two tables are compared before any of their rows are brought together.

A block is 65,536 sequence numbers of a producer, or as many offsets of a partition: large enough that digests
are few, small enough that the exact join after one missing record reads little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

#: Rows a block, as a power of two.
BLOCK_BITS: Final = 16
#: What makes a digest.
_PARTS: Final = ("rows", "one", "two")
#: As many blocks are named in a filter.
_NAMED_BLOCKS: Final = 32


@dataclass(frozen=True)
class Blocks:
    """Blocks of which two tables do not hold the same rows.

    Attributes:
        rows: ``keys`` and ``block``, kept by Spark; they are few, and never brought to the driver.
        keys: the columns that a block belongs to.
        count: how many.
        named: the blocks themselves, if a filter can name them all.
    """

    rows: DataFrame
    keys: tuple[str, ...]
    count: int
    named: tuple[Row, ...] | None


def block(column: str) -> Column:
    """Return the number of the block that a sequence number or an offset falls into."""
    return F.shiftright(column, BLOCK_BITS).alias("block")


def digest(hashed: Column, prefix: str = "") -> list[Column]:
    """Return the aggregates of a digest: ``rows``, and two sums of hashes of them, modulo 2^64.

    Blocks of the same rows have the same digest, however rows are ordered and spread over files. Blocks of
    different rows have the same one by chance in about one of 2^64. Null in ``hashed`` takes no part. The
    sums wrap: the session must not have ANSI arithmetic on.
    """
    return [
        F.count(hashed).alias(f"{prefix}rows"),
        F.coalesce(F.sum(hashed), F.lit(0).cast("long")).alias(f"{prefix}one"),
        F.coalesce(F.sum(F.xxhash64(hashed)), F.lit(0).cast("long")).alias(f"{prefix}two"),
    ]


def together(counted: DataFrame, *keys: str | Column) -> DataFrame:
    """Return the digests of larger groups of rows than those that were counted."""
    return counted.groupBy(*keys).agg(*(F.sum(part).alias(part) for part in _PARTS))


def compared(ours: DataFrame, theirs: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the blocks of which both sides do not hold the same rows: ``keys``, ``block``.

    Shuffles the digests. A block that a side lacks holds no rows there.

    Args:
        ours, theirs: ``keys``, ``block``, none of them null, and the digest.
    """
    on = [*keys, "block"]
    sides = [
        side.select(*on, F.struct(*(F.col(part) for part in _PARTS)).alias(name))
        for side, name in ((ours, "_ours"), (theirs, "_theirs"))
    ]
    nothing = F.struct(*(F.lit(0).cast("long").alias(part) for part in _PARTS))
    both = sides[0].join(sides[1], on, "full_outer")
    differs = F.coalesce("_ours", nothing) != F.coalesce("_theirs", nothing)
    return both.where(differs).select(*on)


def kept(found: DataFrame, keys: Sequence[str]) -> Blocks:
    """Have Spark keep blocks, each of which is there once, and count them."""
    found = found.persist()
    count = found.count()
    named = tuple(found.collect()) if 0 < count <= _NAMED_BLOCKS else None if count else ()
    return Blocks(found, tuple(keys), count, named)


def in_blocks(rows: DataFrame, blocks: Blocks, column: str, *, inside: bool = True) -> DataFrame:
    """Return the rows that lie in the given blocks, or outside of them.

    A few blocks are named in a filter, by which Spark leaves out the parts of files that cannot hold them;
    more are broadcast, unless they are so many that Spark would rather shuffle.

    Args:
        rows: rows with the blocks' keys and the column, none of them null in a row that lies in a block.
    """
    if blocks.named is not None:
        named = reduce(Column.__or__, (_within(one, column) for one in blocks.named), F.lit(False))
        return rows.where(named if inside else ~F.coalesce(named, F.lit(False)))
    how = "semi" if inside else "anti"
    return (
        rows.withColumn("block", block(column)).join(blocks.rows, [*blocks.keys, "block"], how).drop("block")
    )


def _within(one: Row, column: str) -> Column:
    first = one["block"] << BLOCK_BITS
    there = F.col(column).between(first, first + (1 << BLOCK_BITS) - 1)
    keys = (F.col(key) == value for key, value in one.asDict().items() if key != "block")
    return reduce(Column.__and__, keys, there)
