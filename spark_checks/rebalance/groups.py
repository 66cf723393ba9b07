"""A consumer group around restarts: when it was not stable, what nobody owned, how far it lagged."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evidence.run import Run

_PLACE = ["group", "topic", "partition"]
_BUCKET_US: Final = 100_000
_MOST_BUCKETS: Final = 20_000


def not_stable(states: DataFrame, restarts: DataFrame, run: Run) -> DataFrame:
    """Sum the time from each sample that is not Stable to the next one, within each restart's time.

    Returns:
        restart, group, unstable_us, blind_us (time between samples further apart than three intervals, in
        which the group may have been anything), spacing_us (the largest), samples.
    """
    interval = run.sampling_us.get("group_states", 100_000)
    window = Window.partitionBy("group").orderBy("at_us")
    stable = F.lower("state") == "stable"
    spans = states.where(F.col("group").isin(run.watched_groups())).withColumn(
        "next_us", F.lead("at_us").over(window)
    )
    touches = (F.col("at_us") < F.col("until_us")) & (F.col("next_us") > F.col("begin_us"))
    inside = F.least("next_us", "until_us") - F.greatest("at_us", "begin_us")
    spacing = F.col("next_us") - F.col("at_us")
    return (
        spans.join(F.broadcast(restarts), touches, "inner")
        .groupBy("restart", "group")
        .agg(
            F.coalesce(F.sum(F.when(~stable, inside)), F.lit(0)).alias("unstable_us"),
            F.coalesce(F.sum(F.when(stable & (spacing > 3 * interval), inside)), F.lit(0)).alias("blind_us"),
            F.max(spacing).alias("spacing_us"),
            F.count(F.lit(1)).alias("samples"),
        )
    )


def ownerless(assignments: DataFrame, restarts: DataFrame, run: Run) -> DataFrame:
    """Return how long each partition had no owner after it was revoked or lost, by restart.

    From the event until any member's next assignment, or the end of the steady window. When another member
    had it assigned just before, it was never without an owner.

    Returns:
        restart, group, topic, partition, from_us, ownerless_us.
    """
    assigned = F.col("event") == "assigned"
    window = Window.partitionBy(*_PLACE).orderBy("at_us", assigned.cast("int"))
    after = window.rowsBetween(1, Window.unboundedFollowing)
    taken_over = (F.lag("event").over(window) == "assigned") & (
        F.lag("consumer").over(window) != F.col("consumer")
    )
    rows = (
        assignments.where(F.col("group").isin(run.watched_groups()))
        .withColumn("next_us", F.first(F.when(assigned, F.col("at_us")), ignorenulls=True).over(after))
        .withColumn("taken_over", F.coalesce(taken_over, F.lit(False)))
        .where(~assigned & ~F.col("taken_over") & (F.col("at_us") < run.measured_until_us))
    )
    until = F.coalesce(F.col("next_us"), F.lit(run.measured_until_us))
    inside = F.col("at_us").between(F.col("begin_us"), F.col("until_us") - 1)
    return rows.join(F.broadcast(restarts), inside, "inner").select(
        "restart", *_PLACE, F.col("at_us").alias("from_us"), (until - F.col("at_us")).alias("ownerless_us")
    )


def lag(
    acked: DataFrame, delivered: DataFrame, run: Run, pairs: list[tuple[str, str]]
) -> tuple[DataFrame, int]:
    """Return each group's lag over time, and the width of a bucket in microseconds.

    Lag is the sum over partitions of the highest acknowledged offset less the highest delivered one, as
    known at the end of a bucket; redelivery does not lower it.

    Args:
        acked: grains of acknowledgements by (topic, partition).
        delivered: grains of deliveries by (group, topic, partition).
        run: run.json.
        pairs: each group with each of its topics.

    Returns:
        (group, bucket, at_us: its end, lag: records), of the steady window; a row a bucket and group.
    """
    span = run.measured_until_us - run.measured_from_us
    width = max(_BUCKET_US, -(-span // _MOST_BUCKETS))
    buckets = -(-span // width)

    def highest(folded: DataFrame, keys: list[str], name: str) -> DataFrame:
        # Everything before the window counts into its first bucket.
        bucket = F.greatest(F.lit(0), F.floor((F.col("last_us") - run.measured_from_us) / width)).cast("int")
        return folded.groupBy(*keys, bucket.alias("bucket")).agg(F.max("highest").alias(name))

    groups = acked.sparkSession.createDataFrame(pairs, "group string, topic string")
    ours = highest(acked, ["topic", "partition"], "acked").join(F.broadcast(groups), "topic", "inner")
    theirs = highest(delivered, _PLACE, "delivered")
    window = (
        Window.partitionBy(*_PLACE)
        .orderBy("bucket")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    every = F.explode(F.sequence(F.lit(0), F.lit(buckets - 1)))
    grid = ours.select(*_PLACE).distinct().withColumn("bucket", every)
    nothing = F.lit(None).cast("long")
    # A union and one aggregation in place of two joins of the grid.
    known = (
        grid.withColumns({"acked": nothing, "delivered": nothing})
        .unionByName(ours.withColumn("delivered", nothing))
        .unionByName(theirs.withColumn("acked", nothing))
        .groupBy(*_PLACE, "bucket")
        .agg(F.max("acked").alias("acked"), F.max("delivered").alias("delivered"))
        .where(F.col("bucket") < buckets)
        .withColumn("first", F.min("acked").over(window))
        .withColumn("acked", F.max("acked").over(window))
        .withColumn("delivered", F.max("delivered").over(window))
    )
    behind = F.greatest(F.lit(0), F.col("acked") - F.coalesce("delivered", F.col("first") - 1))
    at = F.lit(run.measured_from_us) + (F.col("bucket") + 1) * F.lit(width)
    summed = known.groupBy("group", "bucket").agg(F.coalesce(F.sum(behind), F.lit(0)).alias("lag"))
    return summed.withColumn("at_us", at), width


def recovery(lags: DataFrame, restarts: DataFrame, first_begin_us: int) -> DataFrame:
    """Return how long after each restart's begin a group's lag was above its baseline for the last time.

    The baseline is the highest lag of the steady window before the first restart.

    Returns:
        restart, group, baseline (records), highest (records), last_above_us (null: never above).
    """
    before = lags.where(F.col("at_us") <= first_begin_us)
    baseline = before.groupBy("group").agg(F.max("lag").alias("baseline"))
    inside = F.col("at_us").between(F.col("begin_us"), F.col("until_us"))
    return (
        lags.join(F.broadcast(baseline), "group", "inner")
        .join(F.broadcast(restarts), inside, "inner")
        .groupBy("restart", "group", "baseline")
        .agg(
            F.max("lag").alias("highest"),
            F.max(F.when(F.col("lag") > F.col("baseline"), F.col("at_us"))).alias("last_above_us"),
        )
    )
