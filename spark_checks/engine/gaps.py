"""Gaps: the longest times between consecutive events, by key, and what a restart had to do with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

#: Events closer than this are one: it bounds what is sorted by the run's length instead of its records.
#: Gaps longer than this are exact to the microsecond.
GRAIN_US: Final = 10_000
#: Shorter times without a delivery are a consumer's poll, no stall.
STALL_AT_LEAST_US: Final = 100_000


def grains(events: DataFrame, keys: Sequence[str], at: str) -> DataFrame:
    """Fold events into grains: keys, grain, first_us, last_us, highest (offset), records.

    Shuffles one row a key and 10 ms at most.
    """
    grain = F.floor(F.col(at) / GRAIN_US).alias("grain")
    return events.groupBy(*keys, grain).agg(
        F.min(at).alias("first_us"),
        F.max(at).alias("last_us"),
        F.max("offset").alias("highest"),
        F.count(F.lit(1)).alias("records"),
    )


def gaps(folded: DataFrame, keys: Sequence[str], begin_us: int, end_us: int) -> DataFrame:
    """Return the gaps between consecutive grains of a key: keys, from_us, to_us.

    The time from ``begin_us`` to a key's first event and from its last to ``end_us`` are gaps too: a key
    that went silent for good must not look well.
    """
    inside = folded.where((F.col("last_us") >= begin_us) & (F.col("first_us") <= end_us))
    edges = (
        inside.select(*keys)
        .distinct()
        .select(*keys, F.explode(F.array(F.lit(begin_us), F.lit(end_us))).alias("at"))
        .select(*keys, F.col("at").alias("first_us"), F.col("at").alias("last_us"))
    )
    merged = inside.groupBy(*keys, "grain").agg(
        F.min("first_us").alias("first_us"), F.max("last_us").alias("last_us")
    )
    window = Window.partitionBy(*keys).orderBy("first_us", "last_us")
    return (
        merged.select(*keys, "first_us", "last_us")
        .unionByName(edges)
        .select(*keys, F.col("last_us").alias("from_us"), F.lead("first_us").over(window).alias("to_us"))
        .where(F.col("to_us") > F.col("from_us"))
    )


def during(found: DataFrame, restarts: DataFrame) -> DataFrame:
    """Return each gap with every restart whose time it touches (restarts are few and broadcast)."""
    touches = (F.col("from_us") < F.col("until_us")) & (F.col("to_us") > F.col("begin_us"))
    return found.join(F.broadcast(restarts), touches, "inner").drop("begin_us", "until_us")


def outside(found: DataFrame, restarts: DataFrame) -> DataFrame:
    """Return the gaps that touch no restart."""
    touches = (F.col("from_us") < F.col("until_us")) & (F.col("to_us") > F.col("begin_us"))
    return found.join(F.broadcast(restarts), touches, "anti")


def stalls(delivery_gaps: DataFrame, produce_gaps: DataFrame) -> DataFrame:
    """Take from each gap between deliveries the longest time within it in which nothing was acknowledged.

    One such time and not their sum: where records come every 20 ms, each 20 ms is a gap, and their sum would
    explain away every stall.

    Args:
        delivery_gaps: restart, group, topic, partition, from_us, to_us.
        produce_gaps: restart, topic, partition, from_us, to_us; gaps of one partition do not overlap.

    Returns:
        delivery_gaps with ``stall_us``.
    """
    long = delivery_gaps.where(F.col("to_us") - F.col("from_us") >= STALL_AT_LEAST_US)
    idle = produce_gaps.select(
        "restart", "topic", "partition", F.col("from_us").alias("idle_from"), F.col("to_us").alias("idle_to")
    )
    on = ["restart", "topic", "partition"]
    # Both sides hold the gaps of one restart's seconds in one partition: hundreds, not records.
    joined = long.join(idle, on, "left")
    shared = F.greatest(
        F.lit(0), F.least("to_us", F.col("idle_to")) - F.greatest("from_us", F.col("idle_from"))
    )
    return (
        joined.groupBy(*on, "group", "from_us", "to_us")
        .agg(F.coalesce(F.max(shared), F.lit(0)).alias("shared"))
        .withColumn("stall_us", F.col("to_us") - F.col("from_us") - F.col("shared"))
        .drop("shared")
    )


def worst(found: DataFrame, by: Sequence[str], length: Column, where: Sequence[str]) -> DataFrame:
    """Return for each ``by`` the longest (``us``) and where it was, of equally long ones the last."""
    return (
        found.withColumn("us", length)
        .groupBy(*by)
        .agg(F.max(F.struct("us", "from_us", *where)).alias("one"))
        .select(*by, "one.*")
    )
