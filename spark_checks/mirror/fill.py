"""How long a mirror's batches take to fill: bytes over time, by partition of the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.engine.facts import at_places
from spark_checks.engine.percentiles import histogram, percentiles_by
from spark_checks.engine.readers import Evidence
from spark_checks.engine.spark_types import local_rows

#: Upper ends of the histogram's classes, milliseconds; what takes longer is in a last class of its own.
CLASSES_MS: Final = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000,
    300_000,
)  # fmt: skip
#: What comes of no batches: how many were filled, times without any, and partitions with records.
_NOTHING: Final[Mapping[str, Any]] = {
    "filled_batches": 0,
    "fill_p95_ms": None,
    "fill_p99_ms": None,
    "fill_p95_of_the_slowest_partition_ms": None,
    "partitions": 0,
    "partitions_without_a_full_batch": 0,
    "histogram": [0] * (len(CLASSES_MS) + 1),
}


def batches(evidence: Evidence) -> DataFrame:
    """Cut what each partition of a mirror's source holds into batches of the mirror's ``batch_bytes``.

    Records are laid end to end by their timestamps, to the millisecond, as linger.ms counts; one may lie
    across two batches. Shuffles what each partition got in a millisecond.

    Returns:
        A row a batch: flow, partition, filled (false for a partition's last one, unless it came out even),
        fill_ms (from its first byte to its last).
    """
    run = evidence.run
    sizes = [(one.flow, one.source.cluster, one.source.topic, one.batch_bytes) for one in run.mirrors]
    columns = "flow string, cluster string, topic string, full_bytes long"
    mirrors = local_rows(evidence.session, sizes, columns)
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


def fills(evidence: Evidence) -> Mapping[str, Mapping[str, Any]]:
    """Return by flow what came of its batches: the keys of :data:`_NOTHING`; a row a flow is collected.

    ``fill_p95_ms`` and ``fill_p99_ms`` are within which time that share of the batches was filled (nearest
    rank); ``histogram`` has the batches by class of :data:`CLASSES_MS`, one more for what took longer.
    """
    # By partition and time: what is summed up of it is few.
    cut = batches(evidence).groupBy("flow", "partition", "filled", "fill_ms").agg(
        F.count(F.lit(1)).alias("times")
    ).persist()  # fmt: skip
    full, partitions = F.when(F.col("filled"), F.col("times")).otherwise(0), F.count_distinct("partition")
    unfilled = partitions - F.count_distinct(F.when(F.col("filled"), F.col("partition")))
    of_flow = cut.groupBy("flow").agg(
        F.sum(full).alias("filled_batches"),
        partitions.alias("partitions"),
        unfilled.alias("partitions_without_a_full_batch"),
        histogram(F.col("fill_ms"), CLASSES_MS, full).alias("histogram"),
    )
    filled, slowest = cut.where("filled"), "fill_p95_of_the_slowest_partition_ms"
    of_place = percentiles_by(filled, ("flow", "partition"), "fill_ms", "times", {slowest: 95})
    longest = of_place.groupBy("flow").agg(F.max(slowest).alias(slowest))
    of_all = percentiles_by(filled, ("flow",), "fill_ms", "times", {"fill_p95_ms": 95, "fill_p99_ms": 99})
    rows = of_flow.join(of_all, "flow", "left").join(longest, "flow", "left").collect()
    cut.unpersist()
    found = {mirror.flow: _NOTHING for mirror in evidence.run.mirrors}
    return found | {row["flow"]: {name: row[name] for name in _NOTHING} for row in rows}
