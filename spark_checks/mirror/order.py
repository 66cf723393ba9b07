"""Order of a mirror: records of one source partition keep their order wherever they meet in the target."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

#: A place as one number, so that records are aggregated by hash: over structures, they would be sorted first.
#: Kafka's partitions and offsets fit: 15 bits of a partition's number, 48 of an offset.
_OFFSET_BITS: Final = 48
_ID = ["mirror", "producer", "ident"]
_PAIR = ["mirror", "partition", "target_partition"]


def out_of_order(rows: DataFrame) -> DataFrame:
    """Find records that stand in a target partition behind one that they precede in their source partition.

    A record with several copies in one partition counts at the first of them: what comes again does not
    change the order of those that were there. Not looked at are records with copies in several partitions of
    one side (which of them came first is in no evidence), and equal records that are not told apart.

    Shuffles every record twice, by a few numbers of it: to where its two ends meet, and to where the records
    of a pair of partitions do.

    Args:
        rows: as ``parity.identified`` returns them.

    Returns:
        A row a record: ``kind``, ``_times``, ``mirror``, ``producer``, ``ident``, ``held`` and ``found`` (its
        places in source and target), ``after_offset`` (the highest source offset before it in the target).
    """
    window = Window.partitionBy(*_PAIR).orderBy("target_offset")
    before = window.rowsBetween(Window.unboundedPreceding, -1)
    return (
        both_places(rows)
        .withColumn("after_offset", F.max("offset").over(before))
        .where(F.col("offset") < F.col("after_offset"))
        .select(
            F.lit("reordered").alias("kind"),
            F.lit(1).alias("_times"),
            *_ID,
            F.struct("partition", "offset").alias("held"),
            F.struct(
                F.col("target_partition").alias("partition"), F.col("target_offset").alias("offset")
            ).alias("found"),
            "after_offset",
        )
    )


def both_places(rows: DataFrame) -> DataFrame:
    """Return a row for each record that has one place, or a first one, on both sides.

    Returns:
        ``_ID``, ``partition``, ``offset``, ``target_partition``, ``target_offset``.
    """
    place = F.shiftleft(F.col("partition").cast("long"), _OFFSET_BITS).bitwiseOR(F.col("offset"))
    ours, theirs = F.when(F.col("from_source"), place), F.when(~F.col("from_source"), place)
    met = rows.groupBy(*_ID).agg(
        F.min(ours).alias("held"),
        F.max(ours).alias("held_last"),
        F.min(theirs).alias("found"),
        F.max(theirs).alias("found_last"),
    )
    one_home = (_partition("held") == _partition("held_last")) & (
        _partition("found") == _partition("found_last")
    )
    alike = (F.col("producer") < 0) & (
        (F.col("held") != F.col("held_last")) | (F.col("found") != F.col("found_last"))
    )
    # What is missing on a side has no partition there, and the comparison is null.
    return met.where(one_home & ~alike).select(
        *_ID,
        _partition("held").alias("partition"),
        _offset("held").alias("offset"),
        _partition("found").alias("target_partition"),
        _offset("found").alias("target_offset"),
    )


def _partition(place: str) -> Column:
    return F.shiftright(place, _OFFSET_BITS).cast("int")


def _offset(place: str) -> Column:
    return F.col(place).bitwiseAND(F.lit((1 << _OFFSET_BITS) - 1))
