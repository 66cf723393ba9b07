"""How far a mirror is behind: in records at every sample, and for every record until it was in the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evidence.run import Run

#: Samples are joined with records by stretches of as many offsets, as a power of two.
_STRETCH_BITS: Final = 12
_PLACE = ["cluster", "topic", "partition"]


@dataclass(frozen=True)
class Lag:
    """What the samples of a mirror's two ends told.

    Attributes:
        samples: how many there are of the target.
        most_records, last_records: behind at most, and at the last sample.
        delay_ms: percentiles (p50, p99, max) of the time from a record's timestamp to the first sample in
            which it was in the target; None without any.
        delayed_records: how many records these were measured on.
        widest_gap_ms: the longest time between two samples of the target: by so much a delay is too long at
            most, beside the error of the clocks.
        by_second: (second of the run, records behind at most).
    """

    samples: int = 0
    most_records: int | None = None
    last_records: int | None = None
    delay_ms: Mapping[str, int] | None = None
    delayed_records: int = 0
    widest_gap_ms: int | None = None
    by_second: tuple[tuple[int, int], ...] = ()


def lags(records: DataFrame, ends: DataFrame, run: Run) -> list[Lag]:
    """Return the lag of each mirror, in the order of run.json."""
    totals = behind(ends, run).persist()
    before_us = F.lag("at_us").over(Window.partitionBy("mirror").orderBy("at_us"))
    gaps = totals.withColumn("gap_us", F.col("at_us") - before_us)
    whole = {
        row["mirror"]: row
        for row in gaps.groupBy("mirror")
        .agg(
            F.count(F.lit(1)).alias("samples"),
            F.max("behind").alias("most"),
            F.max_by("behind", "at_us").alias("last"),
            F.max("gap_us").alias("gap_us"),
        )
        .collect()
    }
    second = F.floor((F.col("at_us") - F.lit(run.started_us)) / 1_000_000).cast("int")
    seconds: dict[int, list[tuple[int, int]]] = {}
    # A row a second and mirror.
    for row in totals.groupBy("mirror", second.alias("second")).agg(F.max("behind").alias("most")).collect():
        seconds.setdefault(row["mirror"], []).append((row["second"], row["most"]))
    totals.unpersist()
    late = {row["mirror"]: row for row in delays(records, ends, run).collect()}
    shown = [tuple(sorted(seconds.get(n, ()))) for n in range(len(run.mirrors))]
    return [_lag(whole.get(n), late.get(n), points) for n, points in enumerate(shown)]


def _lag(whole: Any, late: Any, seconds: tuple[tuple[int, int], ...]) -> Lag:
    if whole is None:
        return Lag()
    delay = None
    if late is not None:
        p50, p99, most = late["ms"]
        delay = {"p50": int(p50), "p99": int(p99), "max": int(most)}
    gap_ms = None if whole["gap_us"] is None else -(-whole["gap_us"] // 1000)
    return Lag(
        whole["samples"], whole["most"], whole["last"], delay, late["records"] if late else 0, gap_ms, seconds
    )


def behind(ends: DataFrame, run: Run) -> DataFrame:
    """Return how many records each mirror's target lacked at each of its samples: mirror, at_us, behind.

    What both sides grew by since the run's begin is compared, the source at its last sample before: a record
    that came twice hides one that has not come.
    """
    spark = ends.sparkSession
    starts = spark.createDataFrame(
        [
            (n, is_source, topic.cluster, topic.topic, partition, offset)
            for n, mirror in enumerate(run.mirrors)
            for is_source, place in ((True, mirror.source), (False, mirror.target))
            if (topic := run.topic_of(place)) is not None
            for partition, offset in topic.start_offsets.items()
        ],
        "mirror int, is_source boolean, cluster string, topic string, partition int, start long",
    )
    # A row a sample and mirror: what is shuffled are samples, not records.
    grown = (
        ends.join(F.broadcast(starts), _PLACE, "inner")
        .groupBy("mirror", "is_source", "at_us")
        .agg(F.sum(F.col("end_offset") - F.col("start")).alias("grown"))
    )
    window = Window.partitionBy("mirror").orderBy("at_us", F.col("is_source").desc())
    upto = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    sent = F.last(F.when(F.col("is_source"), F.col("grown")), ignorenulls=True).over(upto)
    return (
        grown.withColumn("sent", sent)
        .where(~F.col("is_source") & F.col("sent").isNotNull())
        .select("mirror", "at_us", F.greatest(F.col("sent") - F.col("grown"), F.lit(0)).alias("behind"))
    )


def delays(records: DataFrame, ends: DataFrame, run: Run) -> DataFrame:
    """Return for each mirror the percentiles of its records' delay: mirror, records, ms (p50, p99, max).

    A record was in the target at the first sample whose end lies behind it. The samples are broadcast, by
    stretch of 4,096 offsets; of the records, one row a millisecond of delay is shuffled. A target that gives
    timestamps of its own (LogAppendTime) is left out.
    """
    spark = records.sparkSession
    targets = spark.createDataFrame(
        [(m.target.cluster, m.target.topic, n) for n, m in enumerate(run.mirrors)],
        "cluster string, topic string, mirror int",
    )
    at = Window.partitionBy(*_PLACE).orderBy("at_us")
    steps = (
        ends.join(F.broadcast(targets), ["cluster", "topic"], "inner")
        .withColumn("from_offset", F.lag("end_offset").over(at))
        .where(F.col("end_offset") > F.col("from_offset"))
    )
    first, last = (F.shiftright(F.col(c), _STRETCH_BITS) for c in ("from_offset", "end_offset"))
    steps = steps.select(
        "mirror",
        *_PLACE,
        F.col("at_us").alias("seen_us"),
        "from_offset",
        "end_offset",
        F.explode(F.sequence(first, last)).alias("stretch"),
    )
    rows = records.where(F.coalesce("timestamp_type", F.lit("")) != "append")
    rows = rows.withColumn("stretch", F.shiftright(F.col("offset"), _STRETCH_BITS))
    arrived = rows.join(F.broadcast(steps), [*_PLACE, "stretch"], "inner").where(
        (F.col("offset") >= F.col("from_offset")) & (F.col("offset") < F.col("end_offset"))
    )
    counted = arrived.groupBy(
        "mirror", F.floor((F.col("seen_us") - F.col("timestamp_us")) / 1000).alias("delay")
    ).agg(F.count(F.lit(1)).alias("n"))
    points = F.array(F.lit(0.5), F.lit(0.99), F.lit(1.0))
    return counted.groupBy("mirror").agg(
        F.sum("n").alias("records"), F.percentile("delay", points, F.col("n")).alias("ms")
    )
