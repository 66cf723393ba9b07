"""What is seen of groups over the whole steady window: gaps of the sampler, idle members, rebalances."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evidence.run import Run
from spark_checks.engine.anomalies import tally
from spark_checks.rebalance.restarts import Restart
from spark_checks.results import Anomaly

#: Samples further apart than this many intervals are a gap, in which a group may have been anything.
GAP_INTERVALS: Final = 3
#: A member that waits for its partitions is no idle one: callbacks and samples tell of it at different times.
_IDLE_AT_LEAST_US: Final = 5_000_000
_SHOWN: Final = ("group", "from_us", "until_us")


def watched(
    states: DataFrame, assignments: DataFrame | None, restarts: list[Restart], run: Run
) -> dict[str, Anomaly]:
    """Find where the sampler of group states slept, members without a partition, and what nobody announced.

    Rows grow with the samples and the changes of ownership, not with the records; both are sorted by group.

    Returns:
        ``sampler_slept``: group, from_us, until_us, more than three intervals between two samples (or a
        sample and an end of the steady window). ``idle_member``: group, from_us, until_us, idle: how many
        members owned no partition while the group was Stable, for five seconds or more.
        ``unexplained_rebalance``: group, from_us, until_us, state: it was not Stable, and no restart in
        the actions was near: somebody restarted an instance by hand, or one fell over.
    """
    mine = states.where(F.col("group").isin(run.watched_groups()))
    found = slept(mine, run).unionByName(unexplained(mine, restarts, run), allowMissingColumns=True)
    if assignments is not None:
        found = found.unionByName(idle(mine, assignments, run), allowMissingColumns=True)
    return tally(found, _SHOWN)


def slept(states: DataFrame, run: Run) -> DataFrame:
    """Return the gaps between samples: kind, group, from_us, until_us."""
    interval = run.sampling_us.get("group_states", 100_000)
    window = Window.partitionBy("group").orderBy("at_us")
    begin, end = run.measured_from_us, run.measured_until_us
    edges = F.explode(F.array(F.lit(begin), F.lit(end))).alias("at_us")
    inside = states.where(F.col("at_us").between(begin, end)).select("group", "at_us")
    both = inside.unionByName(states.select("group").distinct().select("group", edges))
    return (
        both.withColumn("until_us", F.lead("at_us").over(window))
        .where(F.col("until_us") - F.col("at_us") > GAP_INTERVALS * interval)
        .select(F.lit("sampler_slept").alias("kind"), "group", F.col("at_us").alias("from_us"), "until_us")
    )


def unexplained(states: DataFrame, restarts: list[Restart], run: Run) -> DataFrame:
    """Return the times not Stable that touch no restart: kind, group, from_us, until_us, state at first."""
    window = Window.partitionBy("group").orderBy("at_us")
    so_far = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    stable = F.lower("state") == "stable"
    near = F.lit(False)
    for restart in restarts:
        near = near | ((F.col("from_us") < restart.until_us) & (F.col("until_us") > restart.begin_us))
    return (
        states.where(F.col("at_us").between(run.measured_from_us, run.measured_until_us))
        .withColumn("next_us", F.lead("at_us", 1, run.measured_until_us).over(window))
        # All samples between two stable ones have seen as many stable ones before them.
        .withColumn("stretch", F.sum(stable.cast("int")).over(so_far))
        .where(~stable)
        .groupBy("group", "stretch")
        .agg(
            F.min("at_us").alias("from_us"),
            F.max("next_us").alias("until_us"),
            F.min_by("state", "at_us").alias("state"),
        )
        .where(~near)
        .select(F.lit("unexplained_rebalance").alias("kind"), *_SHOWN, "state")
    )


def idle(states: DataFrame, assignments: DataFrame, run: Run) -> DataFrame:
    """Return the times in which members owned nothing: kind, group, from_us, until_us, idle."""
    owner = Window.partitionBy("group", "consumer").orderBy("at_us")
    group = Window.partitionBy("group").orderBy("at_us", "sample")
    so_far = group.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    step = F.when(F.col("event") == "assigned", 1).otherwise(-1)
    moments = assignments.groupBy("group", "consumer", "at_us").agg(F.sum(step).alias("step"))
    has = F.sum("step").over(owner.rowsBetween(Window.unboundedPreceding, Window.currentRow)) > 0
    owners = (
        moments.withColumn("has", has.cast("int"))
        .withColumn("change", F.col("has") - F.lag("has", 1, 0).over(owner))
        .select("group", "at_us", F.lit(0).alias("sample"), "change", F.lit(0).alias("members"))
    )
    stable = F.when(F.lower("state") == "stable", F.col("members")).otherwise(0)
    seen = assignments.select("group").distinct()
    samples = (
        states.where(F.col("at_us").between(run.measured_from_us, run.measured_until_us))
        # Of a group whose ownership nobody watched, nothing is known.
        .join(F.broadcast(seen), "group", "semi")
        .select("group", "at_us", F.lit(1).alias("sample"), F.lit(0).alias("change"), stable.alias("members"))
    )
    counted = (
        owners.unionByName(samples)
        .withColumn("idle", F.greatest(F.lit(0), F.col("members") - F.sum("change").over(so_far)))
        .where("sample = 1")
    )
    return (
        counted.withColumn("changed", F.col("idle") != F.lag("idle", 1, -1).over(group))
        .withColumn("stretch", F.sum(F.col("changed").cast("int")).over(so_far))
        .groupBy("group", "stretch", "idle")
        .agg(F.min("at_us").alias("from_us"), F.max("at_us").alias("until_us"))
        .where((F.col("idle") > 0) & (F.col("until_us") - F.col("from_us") >= _IDLE_AT_LEAST_US))
        .select(F.lit("idle_member").alias("kind"), *_SHOWN, "idle")
    )
