"""How well a mirror's batches compress, by codec, and the best that any of them did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kedge.evidence.run import Run

#: Upper ends of the histogram's classes: how many times smaller a batch became; better is in a last class.
CLASSES: Final = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0)


@dataclass(frozen=True)
class Compression:
    """The batches of a flow by one codec.

    Attributes:
        batches: how many.
        best, median: compressed over raw bytes, of the best batch and of the one in the middle.
        all: of all bytes together.
        histogram: batches by class of :data:`CLASSES`, one more for what is better.
    """

    batches: int
    best: float
    median: float
    all: float
    histogram: tuple[int, ...]


def compressions(batches: DataFrame, run: Run) -> Mapping[str, Mapping[str, Compression]]:
    """Return flow to codec to what its batches came to; a row a flow and codec is collected."""
    flows = batches.sparkSession.createDataFrame(
        [(m.source.cluster, m.source.topic, m.flow) for m in run.mirrors],
        "cluster string, topic string, flow string",
    )
    ratio = F.col("compressed_bytes") / F.col("raw_bytes")
    times = F.col("raw_bytes") / F.col("compressed_bytes")
    classes = [
        F.count_if((times > low) & (times <= high)) for low, high in pairwise((0.0, *CLASSES))
    ] + [F.count_if(times > CLASSES[-1])]  # fmt: skip
    rows = (
        batches.join(F.broadcast(flows), ["cluster", "topic"], "inner")
        .groupBy("flow", "codec")
        .agg(
            F.count(F.lit(1)).alias("batches"),
            F.min(ratio).alias("best"),
            F.median(ratio).alias("median"),
            (F.sum("compressed_bytes") / F.sum("raw_bytes")).alias("all"),
            F.array(*classes).alias("histogram"),
        )
        .orderBy("flow", "codec")
        .collect()
    )
    found: dict[str, dict[str, Compression]] = {}
    for row in rows:
        found.setdefault(row["flow"], {})[row["codec"]] = Compression(
            row["batches"], row["best"], row["median"], row["all"], tuple(row["histogram"])
        )
    return found
