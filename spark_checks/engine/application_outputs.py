"""What Streams applications made of the records of their input, record by record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kedge.evidence.run import Run
from spark_checks.engine.anomalies import tally
from spark_checks.engine.facts import at_places, counted_times, grains, intact
from spark_checks.engine.percentiles import counted_percentiles
from spark_checks.engine.readers import Evidence
from spark_checks.engine.spark_types import local_rows
from spark_checks.engine.time_bins import grain_us
from spark_checks.results import Anomaly

KINDS: Final = ("missing", "duplicated", "unexpected")
_IDENTITY: Final = ("application", "producer", "seq")
_LATENCY: Final = {"latency_p50_ms": 50, "latency_p99_ms": 99, "latency_max_ms": 100}
#: How many records: of the input, outputs that are due, outputs that are there.
_TOTALS: Final = {"inputs": "input_records", "due": "due_records", "outputs": "output_records"}


class Outputs(NamedTuple):
    """What an application made of its input.

    Attributes:
        totals: input_records, due_records, output_records (outputs that are there).
        anomalies: outputs by kind of :data:`KINDS`, with the first records that they concern.
        latency: from a record's intended time to the append of its last output, by percentile in ms.
    """

    totals: Mapping[str, int]
    anomalies: Mapping[str, Anomaly]
    latency: Mapping[str, float]


def outputs_of(evidence: Evidence) -> dict[str, Outputs]:
    """Return what each audited application made of its input, by name. There must be a records table."""
    return evidence.shared.get("outputs", lambda: _outputs(evidence))


def _outputs(evidence: Evidence) -> dict[str, Outputs]:
    run = evidence.run
    rows = _applied(evidence)
    counted = counts(rows).persist()
    sums = (F.sum(name).alias(of) for name, of in _TOTALS.items())
    totals = {row["application"]: row for row in counted.groupBy("application").agg(*sums).collect()}
    us = F.greatest(F.col("received_us") - F.col("intended_us"), F.lit(0))
    took = counted_times(last_outputs(rows), us, run, "group").collect()
    found = {}
    for app in run.audited_applications():
        mine = counted.where(F.col("application") == app.name)
        anomalies = tally(_findings(mine), [*_IDENTITY])
        times = [row for row in took if row["group"] == app.name]
        at = counted_percentiles(times, [*_LATENCY.values()]) if times else {}
        latency = {name: round(at[percent] / 1000, 1) for name, percent in _LATENCY.items() if at}
        whole = {name: totals[app.name][name] if app.name in totals else 0 for name in _TOTALS.values()}
        found[app.name] = Outputs(whole, anomalies, latency)
    counted.unpersist()
    return found


def made_by_applications(records: DataFrame, run: Run) -> DataFrame:
    """Return the intact records of applications' topics, a row for each application that has one.

    Columns: application, per_record, is_output; topic, partition, offset, timestamp_us, timestamp_type;
    producer, seq, intended_us, crc, key_hash.
    """
    ends = [
        (place.cluster, place.topic, app.name, app.per_record, place is app.output)
        for app in run.audited_applications()
        for place in (app.input, app.output)
        if place is not None
    ]
    schema = "cluster string, topic string, application string, per_record int, is_output boolean"
    wanted = F.broadcast(local_rows(records.sparkSession, ends, schema))
    held = intact(records).where(at_places(*((cluster, topic) for cluster, topic, *_ in ends)))
    return held.join(wanted, ["cluster", "topic"]).select(
        *("application", "per_record", "is_output"),
        *("topic", "partition", "offset", "timestamp_us", "timestamp_type"),
        *("producer", "seq", "intended_us", "crc", "key_hash"),
    )


def _applied(evidence: Evidence) -> DataFrame:
    rows = made_by_applications(evidence.need("records"), evidence.run)
    return evidence.shared.get("applied", rows.persist)


def counts(rows: DataFrame) -> DataFrame:
    """Count what is due and what is there, by identity and value; shuffles the rows once.

    Equal keys are one output, different keys are different ones.

    Args:
        rows: as :func:`made_by_applications` returns them.

    Returns:
        application, producer, seq, copies (in the input), inputs (0 or 1), outputs, due, and the outputs
        missing, duplicated and unexpected.
    """
    # No key is a key as well.
    key = F.struct(F.col("key_hash").isNull(), "key_hash")
    grouped = rows.groupBy(*_IDENTITY, "per_record", "crc").agg(
        F.count_if(~F.col("is_output")).alias("copies"),
        F.count_if("is_output").alias("outputs"),
        F.size(F.collect_set(F.when(F.col("is_output"), key))).alias("different"),
    )
    due = F.when(F.col("copies") > 0, F.col("per_record")).otherwise(F.lit(0))
    return grouped.withColumns({"due": due, "inputs": (F.col("copies") > 0).cast("int")}).withColumns({
        "missing": F.greatest(F.col("due") - F.col("different"), F.lit(0)),
        "duplicated": F.when(F.col("copies") == 1, F.col("outputs") - F.col("different")).otherwise(F.lit(0)),
        "unexpected": F.greatest(F.col("different") - F.col("due"), F.lit(0)),
    })  # fmt: skip


def _findings(counted: DataFrame) -> DataFrame:
    each = F.array(*(F.struct(F.lit(kind).alias("kind"), F.col(kind).alias("_times")) for kind in KINDS))
    return (
        counted.withColumn("found", F.explode(each))
        .where("found._times > 0")
        .select("found.*", *_IDENTITY, "copies", "outputs", "due")
    )


def last_outputs(rows: DataFrame) -> DataFrame:
    """Return a row a record of the input with an output that has the broker's time; shuffles the rows once.

    Columns: group (the application), topic, partition, offset (of the record's first copy), intended_us,
    received_us (when the last output was appended).
    """
    place = F.struct("offset", "partition", "topic", "intended_us")
    appended = F.col("is_output") & (F.col("timestamp_type") == "append")
    found = rows.groupBy(*_IDENTITY).agg(
        F.min(F.when(~F.col("is_output"), place)).alias("held"),
        F.max(F.when(appended, F.col("timestamp_us"))).alias("received_us"),
    )
    both = F.col("held").isNotNull() & F.col("received_us").isNotNull()
    return found.where(both).select(F.col("application").alias("group"), "held.*", "received_us")


def output_grains(evidence: Evidence) -> DataFrame | None:
    """Return what applications made of their input as deliveries to them (``facts.delivered_grains``).

    A record counts as got when the last of its outputs was appended, by the clock of the output's broker.
    None where no application is audited.
    """
    run = evidence.run
    if not evidence.has("records") or not run.audited_applications():
        return None
    made = last_outputs(_applied(evidence))
    return evidence.shared.get("applied grains", grains(made, "group", "received_us", grain_us(run)).persist)
