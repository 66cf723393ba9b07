"""What checks ask of the one pass over ledger, records and deliveries, beside what delivery compares.

Each is a table of a few rows a second and partition, made where the rows lie and added up where the audit
runs: no check reads a large table for itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evidence.run import Run
from evidence.tables import arrow_schema
from spark_checks.engine.aggregates import ONE, Aggregate, mixed, second
from spark_checks.engine.anomalies import examples
from spark_checks.engine.applied import COLUMNS as APPLIED
from spark_checks.engine.applied import Ends, Made, at_place, made_of, put_together
from spark_checks.engine.one_pass import Folded, by_identity, folded
from spark_checks.engine.readers import Evidence

#: Events closer than this are one: it bounds what is kept by the run's length instead of its records.
#: Gaps longer than this are exact to the microsecond.
GRAIN_US: Final = 10_000
#: Grains are wider where there would be more of them: by so many rows memory is bounded.
_MOST_GRAINS: Final = 8_000_000
#: Summed, tells two sets of as many records apart.
_WHO: Final = mixed("producer", "seq")
_SECONDS: Final = ("via", "topic", "partition", "instance", "outcome")
#: Latencies by second are told of as many seconds at most; longer runs have them by some seconds together.
_MOST_SECONDS: Final = 2_000
_NO_SECOND: Final = pc.scalar(pa.scalar(None, pa.int32()))
_ZERO: Final = pc.scalar(pa.scalar(0, pa.int64()))


def of_run(records: DataFrame, run: Run) -> DataFrame:
    """Return the records of the topics that generators wrote to, copies in mirrors left out."""
    keep = F.lit(False)
    for cluster in {topic.cluster for topic in run.source_topics()}:
        names = [topic.topic for topic in run.source_topics() if topic.cluster == cluster]
        keep = keep | ((F.col("cluster") == cluster) & F.col("topic").isin(names))
    return records.where(keep)


def intact_of(run: Run) -> Any:
    """Return as a pyarrow expression whether a record is intact and of the run's topics."""
    here = at_place(*((topic.cluster, topic.topic) for topic in run.source_topics()))
    return pc.field("producer").is_valid() & pc.field("crc_ok") & here


def given_to(run: Run) -> Any:
    """Return as a pyarrow expression what :func:`to_groups` says."""
    return pc.field("producer").is_valid() & pc.field("group").isin(pa.array([*run.groups], pa.string()))


def steady(run: Run) -> Any:
    """Return as a pyarrow expression whether a record was intended in the steady window."""
    intended = pc.field("intended_us")
    return (intended >= run.measured_from_us) & (intended < run.measured_until_us)


def grain_us(run: Run) -> int:
    """Return how wide a grain is: 10 ms, or more where a long run of many partitions had too many of them."""
    places = sum(topic.partitions for topic in run.topics) * (1 + len(run.groups))
    grains = run.measured_s * 1e6 / GRAIN_US * places
    return GRAIN_US * max(1, -(-int(grains) // _MOST_GRAINS))


def width_s(run: Run) -> int:
    """Return how many seconds of latencies are told of together."""
    return max(1, -(-int(run.measured_s) // _MOST_SECONDS))


def sums(run: Run) -> dict[str, Aggregate]:
    """Return what is summed up beside the delivery check's own, by name."""
    acked = pc.field("outcome") == "acked"
    return {
        "seconds": Aggregate(
            "ledger",
            (*_SECONDS, "producer", "seq", "bytes", "intended_us", "sent_us", "acked_us"),
            None,
            {key: pc.field(key) for key in _SECONDS}
            | {
                "intended_s": second("intended_us", run.measured_from_us),
                "acked_s": second("acked_us", run.measured_from_us),
            },
            {
                "records": (ONE, "sum"),
                "who": (_WHO, "sum"),
                "bytes": (pc.field("bytes"), "sum"),
                "sent_us": (pc.subtract(pc.field("sent_us"), run.started_us), "sum"),
                "acked_us": (pc.subtract(pc.field("acked_us"), run.started_us), "sum"),
            },
        ),
        "acked": _grains("ledger", acked, "via", "acked_us", run),
        "ack": _acknowledged(run, acked),
        "appended": Aggregate(
            "records",
            (
                *("cluster", "topic", "partition", "producer", "seq", "crc_ok"),
                *("timestamp_type", "timestamp_us", "intended_us"),
            ),
            intact_of(run) & (pc.field("timestamp_type") == "append"),
            {
                "topic": pc.field("topic"),
                "partition": pc.field("partition"),
                "intended_s": second("intended_us", run.measured_from_us),
            },
            {
                "records": (ONE, "sum"),
                "who": (_WHO, "sum"),
                "at": (pc.subtract(pc.field("timestamp_us"), run.started_us), "sum"),
            },
        ),
        "append": _latencies(
            "records",
            intact_of(run) & steady(run) & (pc.field("timestamp_type") == "append"),
            "timestamp_us",
            ("cluster", "topic", "crc_ok", "timestamp_type"),
        ),
        "delivered": _grains("deliveries", given_to(run), "group", "received_us", run),
        "delivery": delivery_latencies(given_to(run) & steady(run)),
    }


def delivery_latencies(where: Any) -> Aggregate:
    """Return how the latencies of deliveries are counted, of those that count."""
    return _latencies("deliveries", where, "received_us", ("group", "offset"))


def _latencies(table: str, where: Any, at: str, columns: tuple[str, ...]) -> Aggregate:
    """Count times since the intended one: producer, us (rounded up), records, most (us, exact)."""
    took = pc.subtract(pc.field(at), pc.field("intended_us"))
    return Aggregate(
        table,
        ("producer", at, "intended_us", *columns),
        where,
        {"producer": pc.field("producer")},
        {"records": (ONE, "sum"), "most": (took, "max")},
        rounded={"us": "most"},
    )


def _acknowledged(run: Run, acked: Any) -> Aggregate:
    """Count times to the acknowledgement: via, acked, second, us (rounded up), records, most (us, exact).

    A record without one has no second and took nothing.
    """
    took = pc.subtract(pc.field("acked_us"), pc.field("intended_us"))
    at = second("intended_us", run.measured_from_us, width_s(run))
    keys = {"via": pc.field("via"), "acked": acked, "second": pc.if_else(acked, at, _NO_SECOND)}
    return Aggregate(
        "ledger",
        ("via", "outcome", "intended_us", "acked_us"),
        steady(run),
        keys,
        {"records": (ONE, "sum"), "most": (pc.if_else(acked, took, _ZERO), "max")},
        rounded={"us": "most"},
        along=("via", "second"),
    )


def _grains(table: str, where: Any, who: str, at: str, run: Run) -> Aggregate:
    """Fold events by (who, topic, partition) into grains: first_us, last_us, highest (offset), records."""
    # No time of a run is negative, of which a division would not be rounded down.
    keys = {key: pc.field(key) for key in (who, "topic", "partition")}
    keys |= {"grain": pc.divide(pc.field(at), grain_us(run))}
    values = {"first_us": (pc.field(at), "min"), "last_us": (pc.field(at), "max")}
    values |= {"highest": (pc.field("offset"), "max"), "records": (ONE, "sum")}
    return Aggregate(
        table, (who, "topic", "partition", "offset", at, "outcome" if table == "ledger" else "producer"),
        where, keys, values, along=(who, "grain"),
    )  # fmt: skip


def facts(evidence: Evidence) -> Folded:
    """Return all that was folded of ledger, records and deliveries, in one pass over each."""
    return folded(evidence, sums(evidence.run))


def fact(evidence: Evidence, name: str) -> Any:
    """Return one of :func:`sums` as an Arrow table; without rows where there are none."""
    parts = facts(evidence).parts
    if name in parts:
        return parts[name]
    how = sums(evidence.run)[name]
    empty = {column: pa.array([], pa.int64()) for column in how.values}
    return pa.table({key: pa.array([], _kind(key)) for key in how.names} | empty)


def _kind(key: str) -> Any:
    if key in ("via", "topic", "instance", "outcome", "group"):
        return pa.string()
    if key == "acked":
        return pa.bool_()
    return pa.int64() if key in ("us", "grain") else pa.int32()


def seconds(evidence: Evidence) -> Any:
    """Return the ledger by second as an Arrow table.

    Columns: via, topic, partition, instance, outcome, intended_s, acked_s; records, bytes, sent_us and
    acked_us (sums since the run's begin) and who (the sum of the identities' hashes).
    """
    return fact(evidence, "seconds")


def acked_grains(evidence: Evidence) -> Any:
    """Return acknowledgements folded by (via, topic, partition) and grain, an Arrow table."""
    return fact(evidence, "acked")


def delivered_grains(evidence: Evidence) -> Any | None:
    """Return deliveries folded by (group, topic, partition) and grain; None where there are none."""
    return fact(evidence, "delivered") if evidence.has("deliveries") and evidence.run.groups else None


def made_by_applications(evidence: Evidence) -> list[Made]:
    """Return what each audited application made of its input, in the order of run.json.

    The records of their topics are read once more, for all of them together. There must be a records table.
    """

    def make() -> list[Made]:
        run = evidence.run
        apps = [
            Ends(app.name, (one.cluster, one.topic), (two.cluster, two.topic), app.per_record)
            for app in run.audited_applications()
            if (one := app.input) and (two := app.output)
        ]
        ends = at_place(*(place for app in apps for place in (app.source, app.target)))
        grains = _grains("deliveries", None, "group", "received_us", run)
        made = partial(
            made_of,
            apps=apps,
            grains=grains,
            window=(run.measured_from_us, run.measured_until_us),
            shown=examples(),
        )
        sound = pc.field("producer").is_valid() & pc.field("crc_ok")
        found = by_identity(evidence, APPLIED, sound & ends, made)
        nothing = made(arrow_schema("records").empty_table().select(APPLIED))
        return [put_together(parts, grains) for parts in zip(nothing, *found, strict=True)]

    return evidence.shared.get("applied", make)


def applied_grains(evidence: Evidence) -> Any | None:
    """Return what applications have made of their input as deliveries to them, folded as deliveries are.

    A record counts as got when the last of its outputs was appended, by the clock of the output's broker.
    None where no application is audited.
    """
    if not evidence.has("records") or not evidence.run.audited_applications():
        return None
    return pa.concat_tables([made["grains"] for made in made_by_applications(evidence)])


def to_groups(deliveries: DataFrame, run: Run) -> DataFrame:
    """Return the deliveries of the run's records to the run's groups."""
    return deliveries.where(F.col("producer").isNotNull() & F.col("group").isin(list(run.groups)))


def percentiles(values: Any, counts: Any, points: tuple[float, ...]) -> list[float]:
    """Return percentiles (0 to 1) of values that come as often as counts say, interpolated between two."""
    order = np.argsort(values, kind="stable")
    values, upto = values[order], np.cumsum(counts[order])
    found = []
    for point in points:
        at = (upto[-1] - 1) * point
        low, high = np.floor(at), np.ceil(at)
        one, two = (float(values[np.searchsorted(upto, end + 1)]) for end in (low, high))
        found.append(one if one == two else (high - at) * one + (at - low) * two)
    return found
