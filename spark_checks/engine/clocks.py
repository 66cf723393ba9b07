"""The brokers' clocks, measured by the records: sent before they are appended, acknowledged after."""

from __future__ import annotations

from typing import Any, Final

import pyarrow.compute as pc
from pyspark.sql import functions as F

from spark_checks.engine.facts import ONE, WHO, aggregated, intact_of, ledger_seconds
from spark_checks.engine.partial import second as second_of
from spark_checks.engine.readers import Evidence

#: A shift smaller than this is noise of the machines, and no reading of a figure depends on it.
_TOLERATED_US: Final = 50_000
#: Kafka's timestamps are whole milliseconds, cut off.
_MILLISECOND_US: Final = 1_000


def shifted(evidence: Evidence) -> list[dict[str, Any]]:
    """Return the partitions whose append times contradict the ledger: topic, partition, shift_at_least_ms.

    Compared are means by partition and second of the intended time, over the seconds of which the topic holds
    just the records that were acknowledged (count and sum of a hash). A partition's shift is the least one
    that explains all of its seconds, negative when the broker's clock is behind. The worst comes first. Rows
    grow with seconds and partitions; those that are collected, with partitions.
    """
    run = evidence.run
    if evidence.table("records") is None:
        return []
    keys = ["topic", "partition", "intended_s"]
    acked = ledger_seconds(evidence).where("outcome = 'acked'").groupBy(*keys)
    bounds = acked.agg(
        F.sum("records").alias("records"),
        F.sum("who").alias("who"),
        (F.sum("sent_us") / F.sum("records")).alias("sent"),
        (F.sum("acked_us") / F.sum("records")).alias("acked"),
    )
    appended = aggregated(
        evidence,
        "records",
        intact_of(run) & (pc.field("timestamp_type") == "append"),
        {
            "topic": (pc.field("topic"), "string"),
            "partition": (pc.field("partition"), "int"),
            "intended_s": (second_of("intended_us", run.measured_from_us), "int"),
        },
        {
            "records": (ONE, "sum"),
            "who": (WHO, "sum"),
            "at": (pc.subtract(pc.field("timestamp_us"), run.started_us), "sum"),
        },
    ).withColumn("at", F.col("at") / F.col("records"))
    # Both sides hold a row a second and partition.
    rows = (
        bounds.join(appended, [*keys, "records", "who"], "inner")
        .groupBy("topic", "partition")
        .agg(
            F.max(F.col("at") - F.col("acked")).alias("ahead"),
            F.max(F.col("sent") - F.col("at") - _MILLISECOND_US).alias("behind"),
        )
    )
    limit = max(_TOLERATED_US, 2 * run.clock_error_us)
    wrong = rows.where((F.col("ahead") > limit) | (F.col("behind") > limit)).collect()
    found = [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "shift_at_least_ms": round(max(row["ahead"], row["behind"]) / 1000, 1)
            * (1 if row["ahead"] > row["behind"] else -1),
        }
        for row in wrong
    ]
    return sorted(found, key=lambda one: (-abs(one["shift_at_least_ms"]), one["topic"], one["partition"]))
