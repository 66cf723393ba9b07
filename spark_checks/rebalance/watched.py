"""What nobody announced: gaps of the sampler, idle members, rebalances, processes that began anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kedge.evidence.run import Run
from spark_checks.engine.anomalies import tally
from spark_checks.engine.stretches import GAP_INTERVALS, stretches
from spark_checks.rebalance import gaps
from spark_checks.rebalance.restarts import Restart
from spark_checks.results import Anomaly

#: A member that waits for its partitions is no idle one: callbacks and samples tell of it at different times.
_IDLE_AT_LEAST_US: Final = 5_000_000
#: Samples bear the time of their host's clock and come once a second; actions that of the control machine.
_CLOCKS_APART_US: Final = 2_000_000
_WHO: Final = ("host", "service", "instance")
_TIMES: Final = ("from_us", "until_us")
_NEVER_US: Final = 1 << 62


def watched(samples: Mapping[str, DataFrame], restarts: Sequence[Restart], run: Run) -> dict[str, Anomaly]:
    """Find where the sampler of group states slept, members without a partition, and what nobody announced.

    Args:
        samples: group_states and assignments of the run's groups, and processes, those that are there.

    Returns:
        ``sampler_slept``: group, from_us, until_us, more than three intervals between two samples (or a
        sample and an end of the steady window). ``idle_member``: group, from_us, until_us, idle: how many
        members owned no partition while the group was Stable, for five seconds or more.
        ``unexplained_rebalance``: group, from_us, until_us, state: it was not Stable, and no restart in
        the actions was near: somebody restarted an instance by hand, or one fell over.
        ``unannounced_restart``: host, service, instance, from_us and until_us, the samples before and after.
    """
    found = []
    if (states := samples.get("group_states")) is not None:
        inside = states.where(F.col("at_us").between(run.measured_from_us, run.measured_until_us))
        found += [slept(states, run), unexplained(inside, restarts, run)]
        # Of a group whose ownership nobody watched, nothing is known.
        if (assignments := samples.get("assignments")) is not None:
            found.append(idle(inside, assignments))
    if (processes := samples.get("processes")) is not None:
        found.append(begun_anew(processes, restarts, run))
    if not found:
        return {}
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), found)
    order = [name for name in ("group", *_WHO, *_TIMES) if name in every.columns]
    rest = [name for name in every.columns if name not in order]
    return tally(every.select(*order, *rest), order)


def slept(states: DataFrame, run: Run) -> DataFrame:
    """Return the gaps between samples: kind, group, from_us, until_us."""
    longest_us = GAP_INTERVALS * run.sampling_us.get("group_states", 100_000)
    found = gaps.unsampled(states, ["group"], run.measured_from_us, run.measured_until_us, longest_us)
    return found.select(
        F.lit("sampler_slept").alias("kind"), "group", "from_us", F.col("to_us").alias("until_us")
    )


def unexplained(states: DataFrame, restarts: Sequence[Restart], run: Run) -> DataFrame:
    """Return the times not Stable that touch no restart: kind, group, from_us, until_us, state at first."""
    stable = F.lower("state") == "stable"
    first = F.min_by("state", "at_us").alias("state")
    found = stretches(states, ["group"], stable, ~stable, first).withColumn(
        "to_us", F.coalesce("to_us", F.lit(run.measured_until_us))
    )
    times = gaps.spans(states.sparkSession, restarts)
    return gaps.during(found.where("from_us IS NOT NULL").drop("until_us"), times, "left_anti").select(
        F.lit("unexplained_rebalance").alias("kind"),
        "group",
        "from_us",
        F.col("to_us").alias("until_us"),
        "state",
    )


def idle(states: DataFrame, assignments: DataFrame) -> DataFrame:
    """Return the times in which members owned nothing: kind, group, from_us, until_us, idle."""
    of_member = Window.partitionBy("group", "consumer").orderBy("at_us")
    step = F.when(F.col("event") == "assigned", 1).otherwise(-1)
    owns = F.sum("step").over(of_member.rowsBetween(Window.unboundedPreceding, Window.currentRow)) > 0
    changes = (
        assignments.groupBy("group", "consumer", "at_us")
        .agg(F.sum(step).alias("step"))
        .withColumn("owns", owns.cast("int"))
        .withColumn("change", F.col("owns") - F.lag("owns", 1, 0).over(of_member))
    )
    both = states.unionByName(changes.select("group", "at_us", "change"), allowMissingColumns=True)
    # Also what changed at the very time of a sample.
    so_far = (
        Window.partitionBy("group")
        .orderBy("at_us")
        .rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    every = Window.partitionBy("group")
    owners = F.coalesce(F.sum("change").over(so_far), F.lit(0))
    counted = both.withColumns({"owners": owners, "seen": F.count("change").over(every)})
    members = F.when(F.lower("state") == "stable", F.col("members")).otherwise(0)
    without = F.greatest(members - F.col("owners"), F.lit(0))
    known = counted.where("state IS NOT NULL AND seen > 0")
    found = stretches(known, ["group"], without, without > 0, F.first("value").alias("idle"))
    return found.where(F.col("until_us") - F.col("from_us") >= _IDLE_AT_LEAST_US).select(
        F.lit("idle_member").alias("kind"), "group", "from_us", "until_us", "idle"
    )


def begun_anew(processes: DataFrame, restarts: Sequence[Restart], run: Run) -> DataFrame:
    """Return the instances whose process began anew between two samples, over the whole run.

    A process's CPU time only ever grows: where it went down, another process runs. Those that began anew
    while a restart of their instance was under way are left out.
    """
    by = Window.partitionBy(*_WHO).orderBy("at_us")
    anew = processes.select(
        *_WHO,
        F.lag("at_us").over(by).alias("from_us"),
        F.col("at_us").alias("until_us"),
        (F.col("cpu_us") < F.lag("cpu_us").over(by)).alias("anew"),
    ).where("anew")
    times = gaps.spans(processes.sparkSession, restarts)
    ended = F.coalesce("ended_us", F.lit(run.ended_us), F.lit(_NEVER_US)) + _CLOCKS_APART_US
    near = reduce(Column.__and__, [anew[name] == times[name] for name in _WHO])
    near &= (F.col("until_us") >= F.col("begin_us") - _CLOCKS_APART_US) & (F.col("from_us") <= ended)
    return anew.join(times.drop("until_us"), near, "left_anti").select(
        F.lit("unannounced_restart").alias("kind"), *_WHO, *_TIMES
    )
