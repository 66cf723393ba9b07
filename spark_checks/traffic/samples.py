"""Samples of others' topics, groups and balancers as stretches of time, rates and lags: queries for Spark.

A run of 500 partitions and an hour has 1.8 million samples. Each query shuffles the samples that it is about
once, by partition or group, and only what it comes to is collected: rows by restart, topic and group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from spark_checks.engine.stretches import PLACE
from spark_checks.engine.stretches import stretches as values
from spark_checks.rebalance.gaps import during, spans
from spark_checks.rebalance.restarts import Restart

#: A lag that follows a line this well grew, or fell, steadily: what it comes to later is no surprise.
_STEADY: Final = 0.5
#: Of two parts of a rate fewer samples than this tell nothing.
FEWEST: Final = 10
#: So many commits in the usual time tell how often a partition's reader commits.
COMMITS: Final = 5
#: What is at the end is told by samples of this last stretch.
END_US: Final = 10_000_000
#: False alarms that a run may have by chance.
_BY_CHANCE: Final = 0.01
PARTITION: Final = ("cluster", "topic", "partition")


@dataclass(frozen=True)
class Times:
    """When what was watched; microseconds. ``usual_us``: until then nothing had been done.

    A change that restarts no instance is one of ``restarts`` without a service.
    """

    begin_us: int
    usual_us: int
    end_us: int
    interval_us: int
    restarts: Sequence[Restart]

    @property
    def instances(self) -> list[Restart]:
        """Return the restarts of instances."""
        return [one for one in self.restarts if one.service]

    def after(self, restart: Restart) -> int:
        """Return when the next restart began, or the end."""
        later = (one.begin_us for one in self.restarts if one.begin_us > restart.begin_us)
        return min(later, default=self.end_us)

    def windows(self, frame: DataFrame, whole: bool = False) -> DataFrame:
        """Return the restarts as ``gaps.spans`` does; of a watch without any number 0, all of its time.

        ``whole``: it is until the next restart.
        """
        restarts = [replace(one, until_us=self.after(one)) if whole else one for one in self.restarts]
        all_of_it = Restart(0, "", "", "", self.begin_us, self.end_us, self.end_us)
        return spans(frame.sparkSession, restarts or [all_of_it])


def stretches(
    samples: DataFrame, keys: Sequence[str], value: Column, counts: Column, times: Times
) -> DataFrame:
    """Return the stretches of values until the next, or the last sample of all, and what is usual of a key.

    Returns:
        as :func:`engine.stretches.stretches`; and of the key: usual_us, the longest stretch of the usual
        time, moves and usual_samples in it, first_us, last_us.
    """
    early = F.count_if(F.col("at_us") < times.usual_us).alias("samples")
    ended = values(samples, keys, value, counts, early).withColumns({
        "to_us": F.coalesce("to_us", "until_us"),
        "spacing_us": F.coalesce("spacing_us", F.lit(times.interval_us)),
    })  # fmt: skip
    every = Window.partitionBy(*keys)
    return ended.withColumns({
        "usual_us": usual("from_us", "to_us", times, every),
        "moves": F.count_if(F.col("moved_us") < times.usual_us).over(every) - 1,
        "usual_samples": F.sum("samples").over(every),
        "first_us": F.min("moved_us").over(every),
        "last_us": F.max("until_us").over(every),
    })  # fmt: skip


def usual(begin: str, end: str, times: Times, over: WindowSpec) -> Column:
    """Return the longest of some stretches in the usual time, 0 without any."""
    inside = F.least(F.col(end), F.lit(times.usual_us)) - F.col(begin)
    return F.coalesce(F.max(F.when(F.col(begin) < times.usual_us, inside)).over(over), F.lit(0))


def told(metrics: DataFrame, times: Times) -> DataFrame:
    """Return the most that instances told Prometheus: host, service, instance, name, usual, later."""
    usual = F.when(F.col("at_us") < times.usual_us, F.col("value"))
    later = F.when(F.col("at_us") >= times.usual_us, F.col("value"))
    found = metrics.groupBy("host", "service", "instance", "name")
    return found.agg(F.max(usual).alias("usual"), F.max(later).alias("later"))


def produced(ends: DataFrame, times: Times) -> DataFrame:
    """Return the stretches in which a partition took no record."""
    return stretches(ends, PARTITION, F.col("end_offset"), F.lit(True), times)


def waited(offsets: DataFrame, times: Times) -> DataFrame:
    """Return the stretches in which records waited and a group committed nothing in their partition.

    A transaction's mark is an offset that nobody reads, so one more is no record that waits. Before the
    first commit nothing is known.
    """
    waits = F.coalesce(F.col("end_offset") - F.col("committed") > 1, F.lit(False))
    found = stretches(offsets, PLACE, F.coalesce("committed", F.lit(-1)), waits, times)
    # How often a reader commits is seen where it does; where little came, its group's others tell.
    group = Window.partitionBy("group")
    usual_us = F.when(F.col("moves") >= COMMITS, F.col("usual_us")).otherwise(F.max("usual_us").over(group))
    return found.withColumns({"usual_us": usual_us, "moves": F.max("moves").over(group)})


def unstable(states: DataFrame, times: Times) -> DataFrame:
    """Return the stretches in which a group was not Stable."""
    stable = F.lower("state") == "stable"
    return stretches(states, ["group"], stable, ~stable, times)


def unlikely(longer_us: Column, times: Times, watched: int) -> Column:
    """Return whether a partition that is quiet for longer than this is so by more than chance.

    By the share of its samples in which nothing had come. All partitions and samples of the restarts are so
    many chances: with a record a second and a level of 5 s some partition of a hundred is quiet for so long.
    """
    quiet = (F.col("usual_samples") - F.col("moves") + 1) / (F.col("usual_samples") + 1)
    lasting = sum(one.until_us - one.begin_us for one in times.restarts) / times.interval_us
    chances = F.lit(float(max(1.0, lasting) * watched))
    return F.pow(quiet, F.floor(longer_us / times.interval_us) + 1) * chances <= _BY_CHANCE


def lasted() -> Column:
    """Return how long a stretch was."""
    return F.col("to_us") - F.col("from_us")


def worst(
    found: DataFrame, who: Sequence[str], error: Column, known: Column, proof: Column, times: Times
) -> DataFrame:
    """Return the longest stretch of each restart and who, of those whose partition can be judged (known).

    ``proof``: how long a stretch of any other partition was at least beyond what is usual there; null: no
    saying.

    Returns:
        restart, who; worst (value_us, error_us, place) and high_us, the most that one was; over (low_us,
        value_us, place), the one that was longest at least, of all; unjudged, partitions that cannot be
        judged, and unjudged_us, their longest usual stretch.
    """
    touched = during(found.drop("until_us"), times.windows(found)).withColumns({
        "value_us": lasted(),
        "error_us": error,
        "low_us": F.when(known, lasted() - error).otherwise(proof),
        "place": F.concat_ws("-", "topic", "partition"),
    })  # fmt: skip
    low = F.col("low_us")
    return touched.groupBy("restart", *who).agg(
        F.max(F.when(known, F.struct("value_us", "error_us", "place"))).alias("worst"),
        F.max(F.when(low.isNotNull(), F.struct("low_us", "value_us", "place"))).alias("over"),
        F.max(F.when(known, F.col("value_us") + F.col("error_us"))).alias("high_us"),
        F.count_distinct(F.when(~known, F.col("place"))).alias("unjudged"),
        F.max(F.when(~known, F.col("usual_us"))).alias("unjudged_us"),
    )


def summed(found: DataFrame, times: Times) -> DataFrame:
    """Return how long a group's stretches lay within each restart: restart, group, value_us, error_us."""
    touched = during(found.drop("until_us"), times.windows(found))
    part = F.least("to_us", "until_us") - F.greatest("from_us", "begin_us")
    return touched.groupBy("restart", "group").agg(
        F.sum(part).alias("value_us"), F.sum("spacing_us").alias("error_us")
    )


def watched(found: DataFrame, who: Sequence[str], times: Times) -> DataFrame:
    """Return of whoever was sampled: widest_us, the longest time without a sample; usual_us; moves."""
    edges = F.greatest(
        F.max("spacing_us"), F.min("first_us") - times.begin_us, times.end_us - F.min("last_us")
    )
    return found.groupBy(*who).agg(
        edges.alias("widest_us"), F.max("usual_us").alias("usual_us"), F.max("moves").alias("moves")
    )


def lags(offsets: DataFrame, times: Times) -> DataFrame:
    """Return group, at_us, lag; baseline, the highest usual lag, and allowed, what is no more than usual.

    That is the baseline and the usual spread, or if that is more, a record a partition, or as many as the
    group usually commits from one sample to the next: samples that always come just after a commit see less
    than those that come just before one. Where the lag grew steadily in the usual time, it may go on to.
    """
    behind = F.greatest(F.col("end_offset") - F.col("committed"), F.lit(0))
    step = F.col("committed") - F.lag("committed").over(Window.partitionBy(*PLACE).orderBy("at_us"))
    known = offsets.where("committed IS NOT NULL AND end_offset IS NOT NULL").withColumn("step", step)
    rows = known.groupBy("group", "at_us").agg(
        F.sum(behind).alias("lag"), F.sum("step").alias("step"), F.count(F.lit(1)).alias("partitions")
    )
    second = (F.col("at_us") - times.usual_us) / 1e6
    before = rows.where(F.col("at_us") < times.usual_us).groupBy("group").agg(
        F.max("lag").alias("baseline"),
        F.greatest(F.max("lag") - F.min("lag"), F.max("partitions"), F.max("step")).alias("spread"),
        F.regr_slope(F.col("lag"), second).alias("slope"),
        F.regr_r2(F.col("lag"), second).alias("fit"),
    )  # fmt: skip
    grows = F.when(F.col("fit") > _STEADY, F.greatest("slope", F.lit(0.0))).otherwise(F.lit(0.0))
    allowed = F.col("baseline") + F.col("spread") + grows * F.greatest(second, F.lit(0.0))
    return rows.join(F.broadcast(before), "group", "left").withColumn("allowed", allowed)


def recovered(lag: DataFrame, times: Times) -> DataFrame:
    """Return restart, group, baseline, peak, last_us; lag was above usual from first_us to above_us."""
    inside = F.col("at_us").between(F.col("begin_us"), F.col("until_us"))
    above = F.when(F.col("lag") > F.col("allowed"), F.col("at_us"))
    return (
        lag.join(times.windows(lag, whole=True), inside, "inner")
        .groupBy("restart", "group")
        .agg(
            F.first("baseline").alias("baseline"),
            F.max("lag").alias("peak"),
            F.min(above).alias("first_us"),
            F.max(above).alias("above_us"),
            F.max("at_us").alias("last_us"),
        )
    )


def ending(states: DataFrame, times: Times) -> DataFrame:
    """Return how groups were at the end: group, state, members, stable_us (when last), usually (share)."""
    stable, before = F.lower("state") == "stable", F.col("at_us") < times.usual_us
    return states.groupBy("group").agg(
        F.max_by("state", "at_us").alias("state"),
        F.max_by("members", "at_us").alias("members"),
        F.max(F.when(stable, F.col("at_us"))).alias("stable_us"),
        F.avg(F.when(before, stable.cast("int"))).alias("usually"),
        F.max(F.when(before, F.col("members"))).alias("usual_members"),
    )


def rates(ends: DataFrame, times: Times, width_us: int) -> DataFrame:
    """Return the records that came to topics: cluster, topic, bin (of that width), records."""
    by = Window.partitionBy(*PARTITION).orderBy("at_us")
    grew = F.col("end_offset") - F.lag("end_offset").over(by)
    # A topic that was made anew counts from 0.
    steps = ends.select(
        *PARTITION, "at_us", F.when(grew < 0, F.col("end_offset")).otherwise(grew).alias("new")
    )
    number = F.floor((F.col("at_us") - times.begin_us) / width_us).alias("bin")
    return (
        steps.where("new IS NOT NULL").groupBy("cluster", "topic", number).agg(F.sum("new").alias("records"))
    )


def before_and_after(rate: DataFrame, times: Times, width_us: int, after_us: int) -> DataFrame:
    """Return by topic records a bin before and after, error (three sigma), bins_before, bins_after."""
    at = F.col("bin") * width_us + times.begin_us
    early, late = at + width_us <= times.usual_us, at >= after_us
    records = F.col("records")
    found = rate.groupBy("cluster", "topic").agg(
        F.avg(F.when(early, records)).alias("before"),
        F.avg(F.when(late, records)).alias("after"),
        F.stddev(F.when(early, records)).alias("spread"),
        F.count_if(early).alias("bins_before"),
        F.count_if(late).alias("bins_after"),
    )
    error = 3 * F.col("spread") * F.sqrt(1 / F.col("bins_before") + 1 / F.col("bins_after"))
    return found.withColumn("error", error)


def errors(clients: DataFrame, times: Times, width_us: int) -> DataFrame:
    """Return by host, bin, and whether it is usual time, what was counted.

    Where one counter went down the process began anew: all that each has is new. What a balancer answers
    by itself tells consumers of a proxy that stopped to begin anew: these are ``own_errors``, and no errors.

    Returns:
        host, bin, usual, requests, client_errors, own_errors, and errors, which may be below 0 in a bin: a
        balancer's counters are not read at one moment.
    """
    by = Window.partitionBy("host").orderBy("at_us")
    counted = ("requests", "client_errors", "server_errors")
    clients = clients.withColumn("own_errors", F.coalesce("own_errors", F.lit(0)))
    anew = reduce(Column.__or__, [F.col(name) < F.lag(name).over(by) for name in counted])
    new = [
        (F.col(name) - F.when(anew, F.lit(0)).otherwise(F.lag(name).over(by))).alias(name)
        for name in (*counted, "own_errors")
    ]
    steps = clients.select("host", "at_us", *new).na.drop()
    steps = steps.withColumn("errors", F.col("server_errors") - F.col("own_errors"))
    number = F.floor((F.col("at_us") - times.begin_us) / width_us).alias("bin")
    before = (F.col("at_us") <= times.usual_us).alias("usual")
    return steps.groupBy("host", number, before).agg(
        *(F.sum(name).alias(name) for name in ("requests", "client_errors", "errors", "own_errors"))
    )
