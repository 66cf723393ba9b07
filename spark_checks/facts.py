"""Folded evidence that more than one check starts from: each is one pass over its table, made once."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_checks import gaps
from spark_checks.readers import Evidence
from spark_checks.run import Application, Place, Run

SECONDS: Final = ("via", "topic", "partition", "instance", "outcome", "intended_s", "acked_s")


def of_run(records: DataFrame, run: Run) -> DataFrame:
    """Return the records of the topics that generators wrote to, copies in mirrors left out."""
    keep = F.lit(False)
    for cluster in {topic.cluster for topic in run.source_topics()}:
        names = [topic.topic for topic in run.source_topics() if topic.cluster == cluster]
        keep = keep | ((F.col("cluster") == cluster) & F.col("topic").isin(names))
    return records.where(keep)


def second(at: str, run: Run) -> Column:
    """Return the whole second of the steady window that a time lies in; negative before it."""
    return F.floor((F.col(at) - F.lit(run.measured_from_us)) / 1e6).cast("int")


def ledger_seconds(evidence: Evidence) -> DataFrame:
    """Return the ledger by second: :data:`SECONDS`, records, bytes, sent_us and acked_us (sums), who.

    ``who`` is the xor of the identities' hashes. The sums count from the run's begin. Shuffles a row a
    second, partition and instance; kept in memory.
    """
    run = evidence.run

    def total(name: str) -> Column:
        return F.sum(F.col(name) - F.lit(run.started_us)).alias(name)

    def make() -> DataFrame:
        return (
            evidence.need("ledger")
            .groupBy(
                *SECONDS[:-2],
                second("intended_us", run).alias("intended_s"),
                second("acked_us", run).alias("acked_s"),
            )
            .agg(
                F.count(F.lit(1)).alias("records"),
                F.bit_xor(F.xxhash64("producer", "seq")).alias("who"),
                F.sum("bytes").alias("bytes"),
                total("sent_us"),
                total("acked_us"),
            )
            .persist()
        )

    return evidence.shared.get("ledger_seconds", make)


def acked_grains(evidence: Evidence) -> DataFrame:
    """Return acknowledgements folded by (via, topic, partition): :func:`gaps.grains`, kept in memory."""

    def make() -> DataFrame:
        acks = evidence.need("ledger").where("outcome = 'acked'")
        return gaps.grains(acks, ["via", "topic", "partition"], "acked_us").persist()

    return evidence.shared.get("acked_grains", make)


def delivered_grains(evidence: Evidence) -> DataFrame | None:
    """Return deliveries folded by (group, topic, partition): :func:`gaps.grains`, kept in memory."""
    deliveries, run = evidence.table("deliveries"), evidence.run
    if deliveries is None or not run.groups:
        return None

    def make() -> DataFrame:
        return gaps.grains(
            to_groups(deliveries, run), ["group", "topic", "partition"], "received_us"
        ).persist()

    return evidence.shared.get("delivered_grains", make)


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
