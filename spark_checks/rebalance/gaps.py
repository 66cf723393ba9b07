"""Gaps: the longest times between consecutive events, by key, and what a restart had to do with them.

Events come as grains (spark_checks.engine.facts), of which there are some a second and partition: these stay
with Spark, which gives a row a restart and interface or group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark_checks.engine.spark_types import local_rows
from spark_checks.engine.time_bins import BIN_US
from spark_checks.rebalance.restarts import Restart

#: Shorter times without a delivery are a consumer's poll, no stall.
STALL_AT_LEAST_US: Final = 100_000


def spans(spark: SparkSession, restarts: Sequence[Restart]) -> DataFrame:
    """Return restarts: restart (its number), host, service, instance, begin_us, ended_us, until_us."""
    rows = [
        (one.number, one.host, one.service, one.instance, one.begin_us, one.end_us, one.until_us)
        for one in restarts
    ]
    who, times = "host string, service string, instance string", "begin_us long, ended_us long, until_us long"
    return F.broadcast(local_rows(spark, rows, f"restart int, {who}, {times}"))


def gaps(grains: DataFrame, keys: Sequence[str], begin_us: int, end_us: int) -> DataFrame:
    """Return the gaps between consecutive grains of a key: keys, from_us, to_us, us. Shuffles them by key.

    The time from ``begin_us`` to a key's first event and from its last to ``end_us`` are gaps too: a key
    that went silent for good must not look well.

    Args:
        grains: keys, first_us, last_us.
        keys: whose events follow one another.
    """
    in_order = Window.partitionBy(*keys).orderBy("first_us", "last_us")
    inside = grains.where((F.col("last_us") >= begin_us) & (F.col("first_us") <= end_us)).withColumns({
        "before": F.coalesce(F.lag("last_us").over(in_order), F.lit(begin_us)),
        "ends": F.lead("first_us").over(in_order).isNull(),
    })  # fmt: skip
    ahead = F.struct(F.col("before").alias("from_us"), F.col("first_us").alias("to_us"))
    behind = F.struct(F.col("last_us").alias("from_us"), F.lit(end_us).alias("to_us"))
    each = F.explode(F.when(F.col("ends"), F.array(ahead, behind)).otherwise(F.array(ahead)))
    found = inside.withColumn("gap", each).select(*keys, "gap.*")
    return found.withColumn("us", F.col("to_us") - F.col("from_us")).where("us > 0")


def unsampled(
    samples: DataFrame, keys: Sequence[str], begin_us: int, end_us: int, longest_us: float
) -> DataFrame:
    """Return the gaps between samples (at_us) that are longer than this: keys, from_us, to_us, us.

    Of a key with samples at other times alone all of the time is a gap.
    """
    at = F.greatest(F.least("at_us", F.lit(end_us)), F.lit(begin_us))
    grains = samples.select(*keys, at.alias("first_us"), at.alias("last_us"))
    return gaps(grains, keys, begin_us, end_us).where(F.col("us") > longest_us)


def of_all(grains: DataFrame, who: str) -> DataFrame:
    """Return the grains of all partitions together: who, first_us, last_us."""
    return grains.groupBy(who, "grain").agg(
        F.min("first_us").alias("first_us"), F.max("last_us").alias("last_us")
    )


def during(found: DataFrame, times: DataFrame, how: str = "inner") -> DataFrame:
    """Return each gap with every restart whose time it touches: the gap, restart, begin_us, until_us.

    Args:
        times: as :func:`spans` returns them; Spark broadcasts them.
        how: ``left`` also returns the gaps that touch none, with nulls; ``left_anti`` these alone.
    """
    touches = (F.col("from_us") < F.col("until_us")) & (F.col("to_us") > F.col("begin_us"))
    return found.join(times, touches, how)


def begun(found: DataFrame, times: DataFrame) -> DataFrame:
    """Return each gap with the restart in whose time it began, as :func:`during` does."""
    return found.join(times, (F.col("from_us") >= F.col("begin_us")) & (F.col("from_us") < F.col("until_us")))


def stalls(delivery_gaps: DataFrame, produce_gaps: DataFrame) -> DataFrame:
    """Take from each gap between deliveries the longest time within it in which nothing was acknowledged.

    One such time and not their sum: where records come every 20 ms, each 20 ms is a gap, and their sum would
    explain away every stall.

    Args:
        delivery_gaps: group, topic, partition, and the columns of :func:`during`.
        produce_gaps: topic, partition, and the same columns.

    Returns:
        restart, group, topic, partition, from_us, to_us, stall_us, of gaps long enough to be a stall.
    """
    on = ["restart", "topic", "partition"]
    idle = _by_second(produce_gaps).select(
        *on, "second", F.col("from_us").alias("idle_from"), F.col("to_us").alias("idle_to")
    )
    shared = F.least("to_us", "idle_to") - F.greatest("from_us", "idle_from")
    # Shuffles the gaps around restarts, by partition of a topic and second.
    return (
        _by_second(delivery_gaps.where(F.col("us") >= STALL_AT_LEAST_US))
        .join(idle, [*on, "second"], "left")
        .groupBy(*on, "group", "from_us", "to_us", "us")
        .agg(F.max(shared).alias("shared"))
        .withColumn("stall_us", F.col("us") - F.greatest(F.coalesce("shared", F.lit(0)), F.lit(0)))
    )


def _by_second(touching: DataFrame) -> DataFrame:
    """Return a gap once for each second of the restart in which it lies: others are found by equality then.

    Two gaps that touch a restart and one another have a time in common in it.
    """
    first, last = F.greatest("from_us", "begin_us"), F.least("to_us", "until_us")
    seconds = F.sequence(F.floor(first / BIN_US), F.floor(last / BIN_US))
    return touching.withColumn("second", F.explode(seconds))


def worst(length: str) -> Column:
    """Return the aggregate of the longest, and of equally long ones the last: length, from_us, and where."""
    return F.max(F.struct(length, "from_us", "topic", "partition")).alias("worst")
