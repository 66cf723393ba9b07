"""The brokers' clocks, measured by the records: sent before they are appended, acknowledged after."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_checks.engine.facts import ledger_by, records_by
from spark_checks.engine.readers import Evidence

#: A shift smaller than this is noise of the machines, and no reading of a figure depends on it.
_TOLERATED_US: Final = 50_000
#: Kafka's timestamps are whole milliseconds, cut off.
_MILLISECOND_US: Final = 1_000


def shifted(evidence: Evidence) -> list[dict[str, Any]]:
    """Return the partitions whose append times contradict the ledger: topic, partition, shift_at_least_ms.

    Compared are means by partition and second of the intended time, over the seconds of which the topic holds
    just the records that were acknowledged (count and sum of a hash). A partition's shift is the least one
    that explains all of its seconds, negative when the broker's clock is behind. The worst comes first.
    """
    run = evidence.run
    if not evidence.has("records"):
        return []
    keys = ["topic", "partition", "intended_s", "records", "who"]
    acked = ledger_by(evidence, "topic", "partition", "outcome", "intended_s").where("outcome = 'acked'")
    stamped = records_by(evidence, "topic", "partition", "intended_s", "timed").where("timed")
    at = stamped.withColumnRenamed("rows", "records").select(*keys, "appended_us")
    rows = acked.select(*keys, "sent_us", "acked_us").join(at, keys, "inner")
    appended, sent, acks = (_mean(name) for name in ("appended_us", "sent_us", "acked_us"))
    places = rows.groupBy("topic", "partition").agg(
        F.max(appended - acks).alias("ahead"), F.max(sent - appended - _MILLISECOND_US).alias("behind")
    )
    limit = max(_TOLERATED_US, 2 * run.clock_error_us)
    # A row a partition at most.
    found = [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "shift_at_least_ms": round(max(row["ahead"], row["behind"]) / 1000, 1)
            * (1 if row["ahead"] > row["behind"] else -1),
        }
        for row in places.where(F.greatest("ahead", "behind") > limit).collect()
    ]
    return sorted(found, key=lambda one: (-abs(one["shift_at_least_ms"]), one["topic"], one["partition"]))


def _mean(name: str) -> Column:
    """Return a sum by the records that it is of; a sum of null is of records that were never sent."""
    # Sums of days at a high rate, and of a clock that is years ahead, go beyond the whole numbers of a float:
    # what a mean then loses is less than a microsecond.
    return F.col(name).cast("double") / F.col("records")
