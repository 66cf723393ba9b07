"""Samples as stretches of time: how long a value stayed the same, and a partition without an owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.engine.readers import Evidence

#: Samples further apart than this many intervals are a gap, in which anything may have been.
GAP_INTERVALS: Final = 3
PLACE: Final = ("group", "topic", "partition")


def stretches(
    samples: DataFrame, keys: Sequence[str], value: Column, counts: Column, *also: Column
) -> DataFrame:
    """Return for each value of a key until the next how long it was, from the first sample that counts.

    Shuffles the samples by key.

    Args:
        samples: keys, at_us, and what ``value`` and ``counts`` are made of.
        keys: whose samples are a sequence.
        value: what changes, or does not; never null.
        counts: whether a sample may begin a stretch.
        also: further aggregates of a stretch's samples; ``value`` is among their columns.

    Returns:
        keys; number; moved_us, the first sample with this value; from_us, the first one that counts (null:
        none does); until_us, the last one; to_us, the first sample of the next value, null where none came;
        spacing_us, the longest time between samples around it, null of a single sample.
    """
    by = Window.partitionBy(*keys).orderBy("at_us")
    so_far = by.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    steps = (
        samples.withColumns({"value": value, "counts": counts})
        .withColumns({
            "apart": F.col("at_us") - F.lag("at_us").over(by),
            "new": F.coalesce(F.col("value") != F.lag("value").over(by), F.lit(True)).cast("int"),
        })
        .withColumn("number", F.sum("new").over(so_far))
    )  # fmt: skip
    same = steps.groupBy(*keys, "number").agg(
        F.min("at_us").alias("moved_us"),
        F.min(F.when(F.col("counts"), F.col("at_us"))).alias("from_us"),
        F.max("at_us").alias("until_us"),
        F.max("apart").alias("widest"),
        F.min_by("apart", "at_us").alias("before"),
        *also,
    )
    then = Window.partitionBy(*keys).orderBy("number")
    return same.withColumns({
        "to_us": F.lead("moved_us").over(then),
        "spacing_us": F.greatest("widest", F.lead("before").over(then)),
    })  # fmt: skip


def owning_groups(evidence: Evidence) -> list[str]:
    """Return the groups that were seen to own something: of others it is not known who owned what."""

    def ask() -> list[str]:
        owned = evidence.samples("assignments").get("assignments")
        return [] if owned is None else sorted(row[0] for row in owned.select("group").distinct().collect())

    return evidence.shared.get("owning groups", ask)


def unassigned(assignments: DataFrame, end_us: int) -> DataFrame:
    """Return how long partitions had no owner, from a revocation or loss until any member has them again.

    A partition that another member had assigned just before was never without an owner. Shuffles the changes
    by partition.

    Args:
        end_us: until when nobody had a partition that no member had again.

    Returns:
        a row a change: PLACE; from_us, null where it left nobody without an owner; to_us; open: nobody had it
        again.
    """
    rows = assignments.withColumn("assigned", F.col("event") == "assigned")
    by = Window.partitionBy(*PLACE).orderBy("at_us", "assigned")
    taken_over = F.lag("assigned").over(by) & (F.lag("consumer").over(by) != F.col("consumer"))
    back_us = F.min(F.when(F.col("assigned"), F.col("at_us")))
    return rows.select(
        *PLACE,
        F.when(~F.col("assigned") & ~F.coalesce(taken_over, F.lit(False)), F.col("at_us")).alias("from_us"),
        back_us.over(by.rowsBetween(1, Window.unboundedFollowing)).alias("back_us"),
    ).select(
        *PLACE,
        "from_us",
        F.coalesce("back_us", F.lit(end_us)).alias("to_us"),
        F.col("back_us").isNull().alias("open"),
    )
