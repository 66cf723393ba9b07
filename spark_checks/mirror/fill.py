"""How long a mirror's batches take to fill: bytes over time, by partition of the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.engine.facts import at_places
from spark_checks.engine.percentiles import percentiles_by
from spark_checks.engine.readers import Evidence

#: Upper ends of the histogram's classes, milliseconds; what takes longer is in a last class of its own.
CLASSES_MS: Final = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000,
    300_000,
)  # fmt: skip


@dataclass(frozen=True)
class Fill:
    """The batches of a flow.

    Attributes:
        batches: how many were filled.
        p95_ms, p99_ms: within which time that share of them was (nearest rank); None without any.
        slowest_p95_ms: the 95th percentile of the partition in which it is longest.
        partitions, unfilled_partitions: with records at all; and with too few for one batch.
        histogram: batches by class of :data:`CLASSES_MS`, one more for what took longer.
    """

    batches: int = 0
    p95_ms: int | None = None
    p99_ms: int | None = None
    slowest_p95_ms: int | None = None
    partitions: int = 0
    unfilled_partitions: int = 0
    histogram: tuple[int, ...] = (0,) * (len(CLASSES_MS) + 1)


def batches(evidence: Evidence) -> DataFrame:
    """Cut what each partition of a mirror's source holds into batches of the mirror's ``batch_bytes``.

    Records are laid end to end by their timestamps, to the millisecond, as linger.ms counts; one may lie
    across two batches. Shuffles what each partition got in a millisecond.

    Returns:
        A row a batch: flow, partition, filled (false for a partition's last one, unless it came out even),
        fill_ms (from its first byte to its last).
    """
    run = evidence.run
    mirrors = evidence.session.createDataFrame(
        [(one.flow, one.source.cluster, one.source.topic, one.batch_bytes) for one in run.mirrors],
        "flow string, cluster string, topic string, full_bytes long",
    )
    ms = F.expr("timestamp_us div 1000").alias("ms")
    sources = at_places(*((one.source.cluster, one.source.topic) for one in run.mirrors))
    held = (
        evidence.need("records")
        .where(sources)
        .groupBy("cluster", "topic", "partition", ms)
        .agg(F.sum("bytes").alias("bytes"))
    )
    in_order = Window.partitionBy("flow", "partition").orderBy("ms")
    until = F.sum("bytes").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    laid = held.where("bytes > 0").join(F.broadcast(mirrors), ["cluster", "topic"]).withColumn("until", until)
    # A row lies in each batch that it has a byte of.
    number = F.sequence(F.expr("(until - bytes) div full_bytes"), F.expr("(until - 1) div full_bytes"))
    return (
        laid.withColumn("number", F.explode(number))
        .groupBy("flow", "partition", "number")
        .agg(
            (F.max("until") >= (F.col("number") + 1) * F.first("full_bytes")).alias("filled"),
            (F.max("ms") - F.min("ms")).alias("fill_ms"),
        )
        .drop("number")
    )


def fills(evidence: Evidence) -> Mapping[str, Fill]:
    """Return the fill times of each flow's batches; a row a flow is collected."""
    # By partition and time: what is summed up of it is few.
    cut = batches(evidence).groupBy("flow", "partition", "filled", "fill_ms").agg(
        F.count(F.lit(1)).alias("times")
    ).persist()  # fmt: skip
    full = cut.where("filled")
    classes = [
        F.sum(F.when(within, F.col("times")).otherwise(0))
        for within in (
            F.col("fill_ms") <= CLASSES_MS[0],
            *((F.col("fill_ms") > low) & (F.col("fill_ms") <= high) for low, high in pairwise(CLASSES_MS)),
            F.col("fill_ms") > CLASSES_MS[-1],
        )
    ]
    slowest = percentiles_by(full, ("flow", "partition"), "fill_ms", "times", {"slowest": 95})
    of_flow = (
        full.groupBy("flow")
        .agg(
            F.sum("times").alias("batches"),
            F.count_distinct("partition").alias("full"),
            F.array(*classes).alias("histogram"),
        )
        .join(percentiles_by(full, ("flow",), "fill_ms", "times", {"p95": 95, "p99": 99}), "flow")
        .join(slowest.groupBy("flow").agg(F.max("slowest").alias("slowest")), "flow")
    )
    partitions = cut.groupBy("flow").agg(F.count_distinct("partition").alias("partitions"))
    rows = partitions.join(of_flow, "flow", "left").collect()
    cut.unpersist()
    found = {mirror.flow: Fill() for mirror in evidence.run.mirrors}
    for row in rows:
        some = row["batches"] or 0
        found[row["flow"]] = Fill(
            batches=some,
            p95_ms=row["p95"],
            p99_ms=row["p99"],
            slowest_p95_ms=row["slowest"],
            partitions=row["partitions"],
            unfilled_partitions=row["partitions"] - (row["full"] or 0),
            histogram=tuple(row["histogram"]) if some else Fill.histogram,
        )
    return found
