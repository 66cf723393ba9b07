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
from spark_checks.hops.found import in_blocks, tally
from spark_checks.hops.topic import TopicHop, expired, intact
from spark_checks.model import Anomaly
from spark_checks.readers import Evidence
from spark_checks.requests import SCHEMA, out_of_order

_KEYS = [*KEYS]
_SENT = ("seq", "offset", "sent_us", "acked_us", "instance")
#: topic, partition, producer, first and last offset.
Place = tuple[str, int, int, int, int]
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
    parts = folded(evidence)
    by_rest = {row["producer"] for row in parts.rows("sent") if row["via"] == "rest"}
    found = stretches(parts, topic.beside, by_rest)
    if not found:
        return {}
    some = sorted((*key, begin, end) for key, ends in found.items() for begin, end in ends)
    joined = _acknowledged(evidence, topic, some).persist()
    looked = [by_sequence(joined.where("via != 'rest'"))]
    if any(one[2] in by_rest for one in some):
        looked.append(by_request(joined.where("via = 'rest'").select(*KEYS, *_SENT)))
    result = tally(reduce(DataFrame.unionByName, looked), ["topic", "partition", "offset"])
    joined.unpersist()
    return result


def _acknowledged(evidence: Evidence, topic: TopicHop, some: Sequence[Place]) -> DataFrame:
    """Return the acknowledged records that lie in the stretches, with what the ledger says of each.

    Of few records those are fetched. Of many, only differing blocks are joined: outside of them the ledger
    alone says what is in the topic, and where.
    """
    run, ledger, records = evidence.run, evidence.need("ledger"), evidence.need("records")
    inside, outside = ledger, None
    producers = F.col("producer").isin(sorted({one[2] for one in some}))
    if evidence.files("records") and len(some) <= _NAMED and sum(one[4] - one[3] for one in some) <= _FEW:
        records = few(evidence, "records", _stretched(some))
        seqs = sorted({row["seq"] for row in records.where("seq is not null").select("seq").collect()})
        inside = few(evidence, "ledger", pc.field("seq").isin(seqs))
    else:
        acked = ledger.where((F.col("outcome") == "acked") & producers & ~expired(run))
        rest = in_stretches(in_blocks(acked, topic.blocks, ["producer"], "seq", inside=False), some)
        outside = rest.select(*KEYS, "via", *_SENT)
        inside = in_blocks(ledger, topic.blocks, ["producer"], "seq")
        records = in_blocks(records, topic.blocks, ["producer"], "seq")
    rows = in_stretches(intact(of_run(records, run)), some).select(*KEYS, "seq", "offset")
    if topic.duplicates is not None:
        rows = without_copies(rows, topic.duplicates)
    told = inside.where((F.col("outcome") == "acked") & producers)
    told = told.select("producer", "seq", "via", "sent_us", "acked_us", "instance")
    joined = rows.join(told, ["producer", "seq"], "inner")
    return joined if outside is None else outside.unionByName(joined)


def _stretched(some: Sequence[Place]) -> Any:
    """Return as a pyarrow expression whether a record lies in one of the stretches."""
    return reduce(operator.or_, (
        (pc.field("topic") == topic)
        & (pc.field("partition") == partition)
        & (pc.field("producer") == producer)
        & (pc.field("offset") >= begin)
        & (pc.field("offset") <= end)
        for topic, partition, producer, begin, end in some
    ))  # fmt: skip


def in_stretches(records: DataFrame, rows: Sequence[Place]) -> DataFrame:
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


def by_request(rows: DataFrame) -> DataFrame:
    """What REST promises (see :mod:`spark_checks.requests`); shuffles the rows by partition and producer."""
    found = rows.groupBy(*KEYS).applyInArrow(out_of_order, SCHEMA)
    return found.withColumn("kind", F.lit("reordered")).withColumn("via", F.lit("rest"))


def _inverted(rows: DataFrame, window: object, names: list[str]) -> DataFrame:
    """Return rows whose neighbour at the next lower offset has a higher seq."""
    seq, offset = names
    return (
        rows.withColumn(seq, F.lag("seq").over(window))  # type: ignore[arg-type]  # WindowSpec differs by backend
        .withColumn(offset, F.lag("offset").over(window))  # type: ignore[arg-type]  # as above
        .where(F.col(seq) > F.col("seq"))
        .select(F.lit("reordered").alias("kind"), *_SHOWN)
    )
