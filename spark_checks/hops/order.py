"""Order within a partition, as far as the interface promises it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.facts import of_run
from spark_checks.folded import few, folded
from spark_checks.hops.falls import KEYS, stretches
from spark_checks.hops.found import tally
from spark_checks.hops.topic import TopicHop, intact
from spark_checks.model import Anomaly
from spark_checks.readers import Evidence

_KEYS = [*KEYS]
#: As many stretches are named in a filter.
_NAMED: Final = 32
#: Records of stretches that are collected at most.
_FEW: Final = 1 << 18
_SHOWN = ["topic", "partition", "producer", "seq", "offset", "after_seq", "after_offset", "via"]


def reordered(evidence: Evidence, topic: TopicHop) -> dict[str, Anomaly]:
    """Find acknowledged records that stand in a partition before one that they had to follow.

    The records are folded along their offsets first, without a shuffle; only where some sequence number goes
    down is looked at exactly. By REST, where several requests are in flight at once, that is everywhere.

    Args:
        evidence: ledger, records and run.json.
        topic: what the first hop found: a second copy is a duplicate, no inversion.
    """
    run, ledger = evidence.run, evidence.need("ledger")
    parts = folded(evidence)
    by_rest = {row["producer"] for row in parts.rows("sent") if row["via"] == "rest"}
    found = stretches(parts, topic.beside, by_rest)
    if not found:
        return {}
    some = sorted((*key, begin, end) for key, ends in found.items() for begin, end in ends)
    # All are near a few falls: then what lies there is fetched, else the tables are read.
    near = evidence.files("records") and len(some) <= _NAMED and sum(one[4] - one[3] for one in some) <= _FEW
    records = few(evidence, "records", _stretched(some)) if near else evidence.need("records")
    rows = in_stretches(intact(of_run(records, run)), some).select(*KEYS, "seq", "offset")
    if topic.duplicates is not None:
        rows = without_copies(rows, topic.duplicates)
    if near:
        seqs = sorted({row["seq"] for row in rows.select("seq").collect()})
        ledger = few(evidence, "ledger", pc.field("seq").isin(seqs))
    # Only producers in question are joined: those of REST, mostly, which have several requests in flight.
    asked = F.col("producer").isin(sorted({producer for _, _, producer in found}))
    acked = ledger.where((F.col("outcome") == "acked") & asked).select(
        "producer", "seq", "via", "sent_us", "acked_us", "instance"
    )
    joined = rows.join(acked, ["producer", "seq"], "inner").persist()
    looked = (
        by_sequence(joined.where("via != 'rest'"))
        .unionByName(within_request(joined.where("via = 'rest'")))
        .unionByName(after_acknowledgement(joined.where("via = 'rest'")))
    )
    result = tally(looked.dropDuplicates(["topic", "partition", "offset"]), ["topic", "partition", "offset"])
    joined.unpersist()
    return result


def _stretched(some: Sequence[tuple[str, int, int, int, int]]) -> Any:
    """Return as a pyarrow expression whether a record lies in one of the stretches."""
    return reduce(operator.or_, (
        (pc.field("topic") == topic)
        & (pc.field("partition") == partition)
        & (pc.field("producer") == producer)
        & (pc.field("offset") >= begin)
        & (pc.field("offset") <= end)
        for topic, partition, producer, begin, end in some
    ))  # fmt: skip


def in_stretches(records: DataFrame, rows: Sequence[tuple[str, int, int, int, int]]) -> DataFrame:
    """Return the records that lie in the stretches: topic, partition, producer, first and last offset."""
    if len(rows) <= _NAMED:
        named = (
            (F.col("topic") == topic)
            & (F.col("partition") == partition)
            & (F.col("producer") == producer)
            & F.col("offset").between(begin, end)
            for topic, partition, producer, begin, end in rows
        )
        return records.where(reduce(Column.__or__, named))
    schema = "topic string, partition int, producer int, _begin long, _end long"
    some = F.broadcast(records.sparkSession.createDataFrame(rows, schema))
    inside = F.col("offset").between(F.col("_begin"), F.col("_end"))
    # Stretches of one partition and producer do not touch: a record is in one of them at most.
    return records.join(some, list(KEYS), "inner").where(inside).drop("_begin", "_end")


def without_copies(rows: DataFrame, duplicates: DataFrame) -> DataFrame:
    """Leave of each duplicated record only the copy where it was acknowledged, else the first."""
    place = F.struct("topic", "partition", "offset")
    copies = duplicates.select("producer", "seq", "home", F.explode("places").alias("place")).select(
        "producer", "seq", "home", "place.topic", "place.partition", "place.offset"
    )
    window = Window.partitionBy("producer", "seq").orderBy(
        F.coalesce(place != F.col("home"), F.lit(True)), "topic", "partition", "offset"
    )
    extra = (
        copies.withColumn("_n", F.row_number().over(window))
        .where("_n > 1")
        .select("topic", "partition", "offset")
    )
    return rows.join(F.broadcast(extra), ["topic", "partition", "offset"], "anti")


def by_sequence(rows: DataFrame) -> DataFrame:
    """An idempotent producer keeps its order: the next record in a partition has a higher seq."""
    window = Window.partitionBy(*_KEYS).orderBy("offset")
    return _inverted(rows, window, ["after_seq", "after_offset"])


def within_request(rows: DataFrame) -> DataFrame:
    """The records of one REST request (same sent time and instance) keep the order of its array."""
    window = Window.partitionBy(*_KEYS, "sent_us", "instance").orderBy("offset")
    return _inverted(rows, window, ["after_seq", "after_offset"])


def after_acknowledgement(rows: DataFrame) -> DataFrame:
    """A REST request sent after another was answered lies behind it; requests in flight at once may swap."""
    last = F.struct(F.col("offset"), F.col("seq"))
    window = (
        Window.partitionBy(*_KEYS)
        .orderBy("at_us", "is_ack")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    event = [*_KEYS, "seq", "offset", "via"]
    sends = rows.where(F.col("sent_us").isNotNull()).select(
        *event, F.col("sent_us").alias("at_us"), F.lit(0).alias("is_ack"), F.lit(None).alias("acked")
    )
    acks = rows.select(
        *event, F.col("acked_us").alias("at_us"), F.lit(1).alias("is_ack"), last.alias("acked")
    )
    return (
        sends.unionByName(acks)
        .withColumn("highest", F.max("acked").over(window))
        .where((F.col("is_ack") == 0) & (F.col("highest.offset") > F.col("offset")))
        .withColumn("after_seq", F.col("highest.seq"))
        .withColumn("after_offset", F.col("highest.offset"))
        .select(F.lit("reordered").alias("kind"), *_SHOWN)
    )


def _inverted(rows: DataFrame, window: object, names: list[str]) -> DataFrame:
    """Return rows whose neighbour at the next lower offset has a higher seq."""
    seq, offset = names
    return (
        rows.withColumn(seq, F.lag("seq").over(window))  # type: ignore[arg-type]  # WindowSpec differs by backend
        .withColumn(offset, F.lag("offset").over(window))  # type: ignore[arg-type]  # as above
        .where(F.col(seq) > F.col("seq"))
        .select(F.lit("reordered").alias("kind"), *_SHOWN)
    )
