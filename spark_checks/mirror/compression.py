"""How well a mirror's batches compress, by codec, and the best that any of them did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Row
from pyspark.sql import functions as F

from spark_checks.engine.percentiles import histogram
from spark_checks.engine.readers import Evidence
from spark_checks.engine.spark_types import local_rows

#: Upper ends of the histogram's classes: how many times smaller a batch became; better is in a last class.
CLASSES: Final = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0)


def compressions(evidence: Evidence) -> Mapping[str, Mapping[str, Row]]:
    """Return flow to codec to what its batches came to; a row a flow and codec is collected.

    There is something only where the topics were read by an audit.

    Returns:
        batches (how many); best, median (compressed over raw bytes, of the best batch and of the one in the
        middle), all (of all bytes together); histogram: batches by class of :data:`CLASSES`.
    """
    batches, run = evidence.tables["batches"], evidence.run
    if batches is None:
        return {}
    flows = local_rows(
        batches.sparkSession,
        [(m.source.cluster, m.source.topic, m.flow) for m in run.mirrors],
        "cluster string, topic string, flow string",
    )
    ratio = F.col("compressed_bytes") / F.col("raw_bytes")
    rows = (
        batches.join(F.broadcast(flows), ["cluster", "topic"], "inner")
        .groupBy("flow", "codec")
        .agg(
            F.count(F.lit(1)).alias("batches"),
            F.min(ratio).alias("best"),
            F.median(ratio).alias("median"),
            (F.sum("compressed_bytes") / F.sum("raw_bytes")).alias("all"),
            histogram(F.col("raw_bytes") / F.col("compressed_bytes"), CLASSES, F.lit(1)).alias("histogram"),
        )
        .orderBy("flow", "codec")
        .collect()
    )
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["flow"], {})[row["codec"]] = row
    return found
