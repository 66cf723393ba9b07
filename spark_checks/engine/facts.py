"""Folded evidence that more than one check starts from: each is one pass over its table, made once."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from evidence.run import Application, Place, Run
from spark_checks.engine import gaps
from spark_checks.engine.folded import shared_out
from spark_checks.engine.partial import Aggregate, mixed, of_rows, of_tasks
from spark_checks.engine.partial import second as second_of
from spark_checks.engine.readers import Evidence

#: Counts rows.
ONE: Final = pc.scalar(pa.scalar(1, pa.int64()))
#: Summed, tells two sets of as many records apart.
WHO: Final = mixed("producer", "seq")
SECONDS: Final = ("via", "topic", "partition", "instance", "outcome", "intended_s", "acked_s")


def of_run(records: DataFrame, run: Run) -> DataFrame:
    """Return the records of the topics that generators wrote to, copies in mirrors left out."""
    keep = F.lit(False)
    for cluster in {topic.cluster for topic in run.source_topics()}:
        names = [topic.topic for topic in run.source_topics() if topic.cluster == cluster]
        keep = keep | ((F.col("cluster") == cluster) & F.col("topic").isin(names))
    return records.where(keep)


def intact_of(run: Run) -> Any:
    """Return as a pyarrow expression whether a record is intact and of the run's topics."""
    names: dict[str, list[str]] = defaultdict(list)
    for topic in run.source_topics():
        names[topic.cluster].append(topic.topic)
    topics = [(pc.field("cluster") == one) & pc.field("topic").isin(some) for one, some in names.items()]
    return (
        pc.field("producer").is_valid() & pc.field("crc_ok") & reduce(operator.or_, topics, pc.scalar(False))
    )


def given_to(run: Run) -> Any:
    """Return as a pyarrow expression what :func:`to_groups` says."""
    return pc.field("producer").is_valid() & pc.field("group").isin(list(run.groups))


def aggregated(
    evidence: Evidence,
    name: str,
    where: Any,
    keys: Mapping[str, tuple[Any, str]],
    values: Mapping[str, tuple[Any, str]],
    rows: DataFrame | None = None,
) -> DataFrame:
    """Return an aggregation of a table: in its tasks first, by Arrow, then of what these leave, a shuffle.

    Args:
        evidence: the evidence, which has the table.
        name: the table.
        where: which rows count, as a pyarrow expression; None: all.
        keys: name -> (pyarrow expression, type as Spark names it).
        values: name -> (pyarrow expression of 64 bits; sum, min or max).
        rows: what is aggregated instead of the table's own rows.
    """
    frame = evidence.need(name) if rows is None else rows
    columns = to_arrow_schema(frame.schema)
    texts = tuple(field.name for field in columns if str(field.type) == "string")
    how = Aggregate(columns, texts, where, {key: expression for key, (expression, _) in keys.items()}, values)
    kinds = ", ".join(
        [f"{key} {kind}" for key, (_, kind) in keys.items()] + [f"{key} long" for key in values]
    )
    files = evidence.files(name) if rows is None else []
    if files:
        spark = frame.sparkSession
        tasks = shared_out(files, spark.sparkContext.defaultParallelism)
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        parts = numbers.mapInArrow(lambda ids: of_tasks(ids, tasks, how), kinds)
    else:
        parts = frame.mapInArrow(lambda batches: of_rows(batches, how), kinds)
    merged = {"sum": F.sum, "min": F.min, "max": F.max}
    whole = [merged[kind](value).alias(value) for value, (_, kind) in values.items()]
    return parts.groupBy(*keys).agg(*whole)


def ledger_seconds(evidence: Evidence) -> DataFrame:
    """Return the ledger by second: :data:`SECONDS`, records, bytes, sent_us and acked_us (sums), who.

    ``who`` is the sum of the identities' hashes. The sums count from the run's begin. Shuffles a row a
    second, partition and instance; kept in memory.
    """
    run = evidence.run
    kinds = dict.fromkeys(SECONDS, "string") | {"partition": "int", "intended_s": "int", "acked_s": "int"}
    expressions = {key: pc.field(key) for key in SECONDS[:-2]} | {
        "intended_s": second_of("intended_us", run.measured_from_us),
        "acked_s": second_of("acked_us", run.measured_from_us),
    }

    def make() -> DataFrame:
        return aggregated(
            evidence,
            "ledger",
            None,
            {key: (expressions[key], kinds[key]) for key in SECONDS},
            {
                "records": (ONE, "sum"),
                "who": (WHO, "sum"),
                "bytes": (pc.field("bytes"), "sum"),
                "sent_us": (pc.subtract(pc.field("sent_us"), run.started_us), "sum"),
                "acked_us": (pc.subtract(pc.field("acked_us"), run.started_us), "sum"),
            },
        ).persist()

    return evidence.shared.get("ledger_seconds", make)


def _grains(evidence: Evidence, name: str, where: Any, who: str, at: str) -> DataFrame:
    """Return :func:`gaps.grains` of a table by (who, topic, partition)."""
    keys = {who: (pc.field(who), "string"), "topic": (pc.field("topic"), "string")}
    keys |= {"partition": (pc.field("partition"), "int")}
    # No time of a run is negative, of which a division would not be rounded down.
    keys |= {"grain": (pc.divide(pc.field(at), gaps.GRAIN_US), "long")}
    values = {"first_us": (pc.field(at), "min"), "last_us": (pc.field(at), "max")}
    values |= {"highest": (pc.field("offset"), "max"), "records": (ONE, "sum")}
    return aggregated(evidence, name, where, keys, values).persist()


def acked_grains(evidence: Evidence) -> DataFrame:
    """Return acknowledgements folded by (via, topic, partition): :func:`gaps.grains`, kept in memory."""
    acked = pc.field("outcome") == "acked"
    return evidence.shared.get("acked_grains", lambda: _grains(evidence, "ledger", acked, "via", "acked_us"))


def delivered_grains(evidence: Evidence) -> DataFrame | None:
    """Return deliveries folded by (group, topic, partition): :func:`gaps.grains`, kept in memory."""
    if evidence.table("deliveries") is None or not evidence.run.groups:
        return None
    mine = given_to(evidence.run)
    return evidence.shared.get(
        "delivered_grains", lambda: _grains(evidence, "deliveries", mine, "group", "received_us")
    )


def applied_grains(evidence: Evidence) -> DataFrame | None:
    """Return what applications have made of their input as deliveries to them, folded as deliveries are.

    A record counts as got when the last of its outputs was appended, by the clock of the output's broker.
    None where no application is audited.
    """
    records, run = evidence.table("records"), evidence.run
    found = [applied(records, app) for app in run.audited_applications()] if records is not None else []
    if not found:
        return None

    def make() -> DataFrame:
        rows = reduce(DataFrame.unionByName, found)
        return gaps.grains(rows, ["group", "topic", "partition"], "received_us").persist()

    return evidence.shared.get("applied_grains", make)


def applied(records: DataFrame, app: Application) -> DataFrame:
    """Return when the last output of each record was appended, and when the record was to be sent.

    One shuffle of every record of both topics by identity.

    Returns:
        group, topic, partition, offset (those of the record in the input, its first copy), intended_us,
        received_us; without records of which nothing was appended, or not by the broker's clock.
    """
    assert app.input is not None
    assert app.output is not None
    ours = records.where(F.col("producer").isNotNull() & F.col("crc_ok"))
    into, out = at_place(app.input), at_place(app.output) & (F.col("timestamp_type") == "append")
    first = F.min(F.when(into, F.struct("offset", "partition", "topic", "intended_us"))).alias("first")
    last = F.max(F.when(out, F.col("timestamp_us"))).alias("received_us")
    rows = ours.where(into | out).groupBy("producer", "seq").agg(first, last)
    return rows.where("first is not null and received_us is not null").select(
        F.lit(app.name).alias("group"), "first.*", "received_us"
    )


def at_place(place: Place) -> Column:
    """Return whether a record is in that topic of that cluster."""
    return (F.col("cluster") == place.cluster) & (F.col("topic") == place.topic)


def to_groups(deliveries: DataFrame, run: Run) -> DataFrame:
    """Return the deliveries of the run's records to the run's groups."""
    return deliveries.where(F.col("producer").isNotNull() & F.col("group").isin(list(run.groups)))
