"""A consumer group around restarts: when it was not stable, and how far it lagged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kedge.evidence.run import Run
from spark_checks.engine.spark_types import local_rows
from spark_checks.engine.stretches import GAP_INTERVALS, PLACE
from spark_checks.rebalance.gaps import during

_BUCKET_US: Final = 100_000
_MOST_BUCKETS: Final = 20_000


def not_stable(states: DataFrame, times: DataFrame, run: Run) -> DataFrame:
    """Sum the time from each sample that is not Stable to the next one, within each restart's time.

    Args:
        times: of the restarts, as ``gaps.spans`` returns them.

    Returns:
        restart, group, unstable_us, blind_us (time between samples further apart than three intervals, in
        which the group may have been anything), spacing_us (the largest).
    """
    following = F.lead("at_us").over(Window.partitionBy("group").orderBy("at_us"))
    spans = states.select("group", "state", F.col("at_us").alias("from_us"), following.alias("to_us"))
    stable, spacing = F.lower("state") == "stable", F.col("to_us") - F.col("from_us")
    inside = F.least("to_us", "until_us") - F.greatest("from_us", "begin_us")
    blind = stable & (spacing > GAP_INTERVALS * run.sampling_us.get("group_states", 100_000))
    return (
        during(spans, times)
        .groupBy("restart", "group")
        .agg(
            F.sum(F.when(stable, 0).otherwise(inside)).alias("unstable_us"),
            F.sum(F.when(blind, inside).otherwise(0)).alias("blind_us"),
            F.max(spacing).alias("spacing_us"),
        )
    )


def lag(
    acked: DataFrame, delivered: DataFrame, run: Run, pairs: Sequence[tuple[str, str]]
) -> tuple[DataFrame, int]:
    """Return each group's lag over time, and the width of a bucket in microseconds.

    Lag is the sum over partitions of the highest acknowledged offset less the highest delivered one, as
    known at the end of a bucket; redelivery does not lower it. Shuffles the grains by partition.

    Args:
        acked: grains of acknowledgements by (topic, partition).
        delivered: grains of deliveries by (group, topic, partition).
        pairs: each group with each of its topics.

    Returns:
        (group, at_us: a bucket's end, lag: records), of the steady window; a row a bucket and group.
    """
    span = run.measured_until_us - run.measured_from_us
    width = max(_BUCKET_US, -(-span // _MOST_BUCKETS))
    buckets = -(-span // width)
    # Everything before the window counts into its first bucket.
    bucket = F.greatest(F.floor((F.col("last_us") - run.measured_from_us) / width), F.lit(0)).alias("bucket")
    of_groups = F.broadcast(local_rows(acked.sparkSession, [*pairs], "group string, topic string"))
    sent = acked.groupBy("topic", "partition", bucket).agg(F.max("highest").alias("sent"))
    got = delivered.groupBy(*PLACE, bucket).agg(F.max("highest").alias("got"))
    both = sent.join(of_groups, "topic").unionByName(
        got.join(of_groups, ["group", "topic"], "semi"), allowMissingColumns=True
    )
    places = both.where(F.col("bucket") < buckets).groupBy(*PLACE, "bucket").agg(
        F.max("sent").alias("sent"), F.max("got").alias("got")
    )  # fmt: skip
    of_place = Window.partitionBy(*PLACE).orderBy("bucket")
    upto = of_place.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = places.select(
        *PLACE,
        "bucket",
        F.max("sent").over(upto).alias("last"),
        # The lowest of the offsets known so far stands for where the partition began.
        F.coalesce(F.max("got").over(upto), F.min("sent").over(upto) - 1).alias("read"),
    ).where("last is not null")
    behind = known.withColumn("behind", F.greatest(F.col("last") - F.col("read"), F.lit(0)))
    # How much it grew by: what is summed up then is few, a row a bucket and group.
    before = F.coalesce(F.lag("behind").over(of_place), F.lit(0))
    grown = behind.withColumn("grown", F.col("behind") - before).groupBy("group", "bucket")
    of_group = Window.partitionBy("group").orderBy("bucket")
    steps = grown.agg(F.sum("grown").alias("grown")).select(
        "group",
        "bucket",
        F.sum("grown").over(of_group.rowsBetween(Window.unboundedPreceding, Window.currentRow)).alias("lag"),
        F.when(F.lag("bucket").over(of_group).isNull(), F.lit(0)).otherwise(F.col("bucket")).alias("first"),
        F.coalesce(F.lead("bucket").over(of_group), F.lit(buckets)).alias("next"),
    )
    filled = steps.withColumn("at", F.explode(F.sequence(F.col("first"), F.col("next") - 1)))
    return filled.select(
        "group",
        (F.lit(run.measured_from_us) + (F.col("at") + 1) * width).alias("at_us"),
        F.when(F.col("at") < F.col("bucket"), F.lit(0)).otherwise(F.col("lag")).alias("lag"),
    ), width


def recovery(lags: DataFrame, times: DataFrame, first_begin_us: int) -> DataFrame:
    """Return how long after each restart's begin a group's lag was above its baseline for the last time.

    The baseline is the highest lag of the steady window before the first restart.

    Args:
        lags: as :func:`lag` returns them.
        times: of the restarts, as ``gaps.spans`` returns them.

    Returns:
        restart, group, baseline (records), highest (records), last_above_us (null: never above).
    """
    before = F.max(F.when(F.col("at_us") <= first_begin_us, F.col("lag")))
    based = lags.withColumn("baseline", before.over(Window.partitionBy("group"))).where(
        "baseline is not null"
    )
    inside = F.col("at_us").between(F.col("begin_us"), F.col("until_us"))
    return based.join(times, inside).groupBy("restart", "group", "baseline").agg(
        F.max("lag").alias("highest"),
        F.max(F.when(F.col("lag") > F.col("baseline"), F.col("at_us"))).alias("last_above_us"),
    )  # fmt: skip
