"""The brokers' clocks, measured by the records: sent before they are appended, acknowledged after."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_checks.engine.facts import appended, ledger_by
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
    acked = ledger_by(evidence, "topic", "partition", "outcome", "intended_s")
    bounds = acked.filter(pc.field("outcome") == "acked").select([*keys, "sent_us", "acked_us"])
    rows = bounds.join(appended(evidence), keys, join_type="inner")
    at, sent, acks = (_mean(rows, name) for name in ("at", "sent_us", "acked_us"))
    places = pa.table({
        "topic": rows["topic"],
        "partition": rows["partition"],
        "ahead": pc.subtract(at, acks),
        "behind": pc.subtract(pc.subtract(sent, at), _MILLISECOND_US),
    }).group_by(keys[:2]).aggregate([("ahead", "max"), ("behind", "max")])  # fmt: skip
    limit = max(_TOLERATED_US, 2 * run.clock_error_us)
    found = [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "shift_at_least_ms": round(max(row["ahead_max"], row["behind_max"]) / 1000, 1)
            * (1 if row["ahead_max"] > row["behind_max"] else -1),
        }
        for row in places.to_pylist()
        if max(row["ahead_max"], row["behind_max"]) > limit
    ]
    return sorted(found, key=lambda one: (-abs(one["shift_at_least_ms"]), one["topic"], one["partition"]))


def _mean(rows: pa.Table, name: str) -> Any:
    """Return sums by the records that they are of; a sum of null is of records that were never sent."""
    # Sums of days at a high rate, and of a clock that is years ahead, go beyond the whole numbers of a float:
    # what a mean then loses is less than a microsecond.
    sums, records = (rows[column].cast(pa.float64(), safe=False) for column in (name, "records"))
    return pc.divide(sums, records)
