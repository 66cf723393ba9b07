"""How far a mirror is behind: in records at every sample, and for every record until it was in the target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from kedge.evidence.run import Run
from spark_checks.engine.facts import at_places
from spark_checks.engine.percentiles import percentiles_by
from spark_checks.engine.readers import Evidence
from spark_checks.engine.spark_types import local_rows
from spark_checks.engine.time_bins import BIN_US

#: What the records of a target were delayed by, in whole milliseconds, by (cluster, topic).
Delays = Mapping[tuple[str, str], Row]
_DELAYS: Final = {"p50": 50.0, "p99": 99.0, "max": 100.0}
_STARTS: Final = "mirror int, side string, cluster string, topic string, partition int, start long"
#: Offsets a block of the join, as a power of two.
_NEAR_BITS: Final = 12


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


def lags(evidence: Evidence) -> list[Lag]:
    """Return the lag of each mirror, in the order of run.json; without samples nothing is known of any."""
    run = evidence.run
    ends = evidence.samples("end_offsets").get("end_offsets")
    if ends is None:
        return [Lag() for _ in run.mirrors]
    # A watch of others' topics samples into the same table, and may have many of them.
    places = {(one.cluster, one.topic) for mirror in run.mirrors for one in (mirror.source, mirror.target)}
    ends = ends.where(at_places(*places))
    late = delays(evidence.need("records"), ends, run)
    seen = behind(ends, run).persist()
    totals = {row["mirror"]: row for row in _totals(seen).collect()}
    second = F.floor((F.col("at_us") - run.started_us) / BIN_US).alias("second")
    by_second: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in seen.groupBy("mirror", second).agg(F.max("lacking").alias("most")).orderBy("second").collect():
        by_second[row["mirror"]].append((row["second"], row["most"]))
    seen.unpersist()
    return [
        _lag(totals[number], by_second[number], late.get((mirror.target.cluster, mirror.target.topic)))
        if number in totals
        else Lag()
        for number, mirror in enumerate(run.mirrors)
    ]


def _lag(total: Row, by_second: Sequence[tuple[int, int]], late: Row | None) -> Lag:
    gap = total["gap_us"]
    return Lag(
        samples=total["samples"],
        most_records=total["most"],
        last_records=total["last"],
        delay_ms={name: late[name] for name in _DELAYS} if late else None,
        delayed_records=late["records"] if late else 0,
        widest_gap_ms=None if gap is None else -(-gap // 1000),
        by_second=tuple(by_second),
    )


def behind(ends: DataFrame, run: Run) -> DataFrame:
    """Return how many records a mirror's target lacked at each of its samples: mirror, at_us, lacking.

    ``mirror`` is its place in run.json. What both sides grew by since the run's begin is compared, the source
    at its last sample before: a record that came twice hides one that has not come. Shuffles the samples by
    mirror.
    """
    starts = [
        (number, side, place.cluster, place.topic, partition, start)
        for number, mirror in enumerate(run.mirrors)
        for side, place in (("sent", mirror.source), ("copied", mirror.target))
        if (topic := run.topic_of(place)) is not None
        for partition, start in topic.start_offsets.items()
    ]
    began = local_rows(ends.sparkSession, starts, _STARTS)
    grown = (
        ends.join(F.broadcast(began), ["cluster", "topic", "partition"])
        .groupBy("mirror", "at_us")
        .pivot("side", ["sent", "copied"])
        .agg(F.sum(F.col("end_offset") - F.col("start")))
    )
    before = (
        Window.partitionBy("mirror")
        .orderBy("at_us")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    sent = F.last("sent", ignorenulls=True).over(before)
    lacking = F.greatest(sent - F.col("copied"), F.lit(0)).alias("lacking")
    known = grown.select("mirror", "at_us", sent.alias("sent"), "copied", lacking)
    return known.where("sent IS NOT NULL AND copied IS NOT NULL").select("mirror", "at_us", "lacking")


def _totals(seen: DataFrame) -> DataFrame:
    """Return of each mirror how many samples there are, records behind, the widest gap between samples."""
    apart = F.col("at_us") - F.lag("at_us").over(Window.partitionBy("mirror").orderBy("at_us"))
    return (
        seen.withColumn("apart", apart)
        .groupBy("mirror")
        .agg(
            F.count(F.lit(1)).alias("samples"),
            F.max("lacking").alias("most"),
            F.max_by("lacking", "at_us").alias("last"),
            F.max("apart").alias("gap_us"),
        )
    )


def delays(records: DataFrame, ends: DataFrame, run: Run) -> Delays:
    """Return by how much records of each mirror's target were delayed: records, and :data:`_DELAYS`.

    A record was in the target at the first sample whose end lies behind it. What was there before the first
    sample is left out, and so is a target that gives timestamps of its own (LogAppendTime).
    """
    place = Window.partitionBy("cluster", "topic", "partition").orderBy("at_us")
    upto = place.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    targets = at_places(*((one.target.cluster, one.target.topic) for one in run.mirrors))
    came = (
        ends.where(targets)
        .withColumn("end", F.max("end_offset").over(upto))
        .withColumn("begin", F.lag("end").over(place))
        .where("end > begin")
        .select("cluster", "topic", "partition", "begin", "end", "at_us")
    )
    # Samples are few and are broadcast; records are joined by blocks of offsets, so that each is held against
    # the one or two samples that may be its own.
    blocks = F.sequence(F.shiftright("begin", _NEAR_BITS), F.shiftright(F.col("end") - 1, _NEAR_BITS))
    seen = came.withColumn("near", F.explode(blocks))
    took = F.floor((F.col("at_us") - F.col("timestamp_us")) / 1000).cast("long").alias("delay_ms")
    counted = (
        records.where(F.coalesce(F.col("timestamp_type") != "append", F.lit(True)))
        .withColumn("near", F.shiftright("offset", _NEAR_BITS))
        .join(F.broadcast(seen), ["cluster", "topic", "partition", "near"], "inner")
        .where("offset >= begin and offset < end")
        .groupBy("cluster", "topic", took)
        .agg(F.count(F.lit(1)).alias("records"))
    )
    topic = ("cluster", "topic")
    sums = counted.groupBy(*topic).agg(F.sum("records").alias("records"))
    found = percentiles_by(counted, topic, "delay_ms", "records", _DELAYS).join(sums, [*topic])
    return {(row["cluster"], row["topic"]): row for row in found.collect()}
