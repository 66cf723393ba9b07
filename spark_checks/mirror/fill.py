"""How long a mirror's batches take to fill: bytes over time, by partition of the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evidence.run import Run

#: Upper ends of the histogram's classes, milliseconds; what takes longer is in a last class of its own.
CLASSES_MS: Final = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000,
    300_000,
)  # fmt: skip
_PARTITION = ["flow", "mirror", "partition"]


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


def batches(records: DataFrame, run: Run) -> DataFrame:
    """Cut what each partition of a mirror's source holds into batches of the mirror's ``batch_bytes``.

    Records are laid end to end by their timestamps, to the millisecond, as linger.ms counts; one may lie
    across two batches.

    Returns:
        A row a batch: ``flow``, ``mirror`` (its number in run.json), ``partition``, ``filled`` (false for the
        last one of a partition, unless it came out even), ``fill_ms`` (from its first byte to its last).
    """
    schema = "cluster string, topic string, flow string, mirror int, batch_bytes long"
    wanted = records.sparkSession.createDataFrame(
        [(m.source.cluster, m.source.topic, m.flow, n, m.batch_bytes) for n, m in enumerate(run.mirrors)],
        schema,
    )
    # Summed by millisecond before it is shuffled: a row a partition and millisecond, not one a record.
    by_ms = (
        records.join(F.broadcast(wanted), ["cluster", "topic"], "inner")
        .groupBy(*_PARTITION, "batch_bytes", F.floor(F.col("timestamp_us") / 1000).alias("ms"))
        .agg(F.sum("bytes").alias("bytes"))
        .where(F.col("bytes") > 0)
    )
    so_far = Window.partitionBy(*_PARTITION, "batch_bytes").orderBy("ms")
    so_far = so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    size = F.col("batch_bytes")
    reached = by_ms.withColumn("until", F.sum("bytes").over(so_far))
    first, last = (F.col("until") - F.col("bytes")), F.col("until") - 1
    numbered = reached.withColumn(
        "number", F.explode(F.sequence(F.floor(first / size), F.floor(last / size)))
    )
    return (
        numbered.groupBy(*_PARTITION, "batch_bytes", "number")
        .agg((F.max("ms") - F.min("ms")).alias("fill_ms"), F.max("until").alias("until"))
        .select(*_PARTITION, (F.col("until") >= (F.col("number") + 1) * size).alias("filled"), "fill_ms")
    )


def fills(records: DataFrame, run: Run) -> Mapping[str, Fill]:
    """Return the fill times of each flow's batches."""
    cut = batches(records, run).persist()
    full = F.when(F.col("filled"), F.col("fill_ms"))

    def at(share: float) -> str:
        return f"percentile_disc({share}) WITHIN GROUP (ORDER BY CASE WHEN filled THEN fill_ms END)"

    ends = (-1, *CLASSES_MS)
    classes = [
        F.count_if((full > low) & (full <= high))
        for low, high in pairwise(ends)
    ] + [F.count_if(full > ends[-1])]  # fmt: skip
    # One row a flow, and one a partition: both small.
    by_partition = cut.groupBy(*_PARTITION).agg(F.count(full).alias("batches"), F.expr(at(0.95)).alias("p95"))
    partitions = by_partition.groupBy("flow").agg(
        F.count(F.lit(1)).alias("partitions"),
        F.count_if(F.col("batches") == 0).alias("unfilled"),
        F.max("p95").alias("slowest"),
    )
    whole = cut.groupBy("flow").agg(
        F.count(full).alias("batches"),
        F.expr(at(0.95)).alias("p95"),
        F.expr(at(0.99)).alias("p99"),
        F.array(*classes).alias("histogram"),
    )
    found = {
        row["flow"]: Fill(
            row["batches"],
            _ms(row["p95"]),
            _ms(row["p99"]),
            _ms(row["slowest"]),
            row["partitions"],
            row["unfilled"],
            tuple(row["histogram"]),
        )
        for row in whole.join(partitions, "flow", "inner").collect()
    }
    cut.unpersist()
    return {mirror.flow: found.get(mirror.flow, Fill()) for mirror in run.mirrors}


def _ms(value: float | None) -> int | None:
    return None if value is None else int(value)
