"""Order within a partition, as far as the interface promises it."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.delivery.producer_to_topic import TopicHop, expired, intact
from spark_checks.delivery.requests import SCHEMA, disordered
from spark_checks.engine.anomalies import in_blocks, tally
from spark_checks.engine.facts import facts, intact_of, of_run
from spark_checks.engine.folds import AROUND
from spark_checks.engine.one_pass import FEW, Folded, few
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly

#: Partition of a topic, and producer: within these order is promised.
KEYS: Final = ("topic", "partition", "producer")
Key = tuple[str, int, int]
#: First and last offset.
Stretch = tuple[int, int]
#: All that a partition holds of a producer.
WHOLE: Final[Stretch] = (0, (1 << 63) - 1)
#: Where there are more stretches than these the whole is looked at.
_MOST: Final = 64
_KEYS = [*KEYS]
_SENT = ("seq", "offset", "sent_us", "acked_us", "instance")
_TOLD = ("producer", "seq", "via", "sent_us", "acked_us", "instance")
_PLACE = ("topic", "partition", "offset")
#: topic, partition, producer, first and last offset.
Place = tuple[str, int, int, int, int]
#: So many records are looked at where the audit runs, some hundred bytes each, rather than by tasks.
MANY: Final = 1 << 21
#: As many stretches are named in a filter.
_NAMED: Final = 32
_SHOWN = ["topic", "partition", "producer", "seq", "offset", "after_seq", "after_offset", "via"]


def reordered(evidence: Evidence, topic: TopicHop) -> dict[str, Anomaly]:
    """Find acknowledged records that stand in a partition before one that they had to follow.

    The records are folded along their offsets first, without a shuffle; only where some sequence number goes
    down is looked at exactly. By REST, where several requests are in flight at once, that is everywhere.

    Args:
        evidence: ledger, records and run.json.
        topic: what the first hop found: a second copy is a duplicate, no inversion.
    """
    parts = facts(evidence)
    by_rest = {row["producer"] for row in parts.rows("sent") if row["via"] == "rest"}
    found = stretches(parts, topic.beside, by_rest)
    if not found:
        return {}
    some = sorted((*key, begin, end) for key, ends in found.items() for begin, end in ends)
    if _rows(found, parts) <= MANY:
        return tally(disordered(_few(evidence, topic, some)), _PLACE)
    joined = _acknowledged(evidence, topic, some).persist()
    looked = [by_sequence(joined.where("via != 'rest'"))]
    if any(one[2] in by_rest for one in some):
        looked.append(by_request(joined.where("via = 'rest'")))
    result = tally(reduce(DataFrame.unionByName, looked), _PLACE)
    joined.unpersist()
    return result


def _rows(found: Mapping[Key, Sequence[Stretch]], parts: Folded) -> int:
    """Return how many intact records lie in stretches, at most."""
    return sum(
        min(one["rows"], max(0, min(end, one["to_offset"]) - max(begin, one["from_offset"]) + 1))
        for one in parts.rows("spans")
        for begin, end in found.get((one["topic"], one["partition"], one["producer"]), ())
    )


def _few(evidence: Evidence, topic: TopicHop, some: Sequence[Place]) -> pa.Table:
    """Return the acknowledged records that lie in the stretches as an Arrow table: they are few."""
    if not evidence.files("records") or len(some) > _NAMED:
        return _acknowledged(evidence, topic, some).toArrow()
    where = {"records": _stretched(some) & intact_of(evidence.run)}
    records = few(evidence, where, {"records": (*KEYS, "seq", "offset")})["records"]
    if topic.copies is not None:
        records = records.join(_here(topic.copies), list(_PLACE), join_type="left anti")
    seqs = records["seq"].unique()
    # The bounds are what a file's statistics are held against.
    near = (pc.field("seq") >= pc.min(seqs)) & (pc.field("seq") <= pc.max(seqs))
    near = near & pc.field("producer").isin(records["producer"].unique())
    # A long list costs each file more than the rows that it would leave out.
    if len(seqs) <= FEW:
        near = near & pc.field("seq").isin(seqs)
    acked = few(evidence, {"ledger": near & (pc.field("outcome") == "acked")}, {"ledger": _TOLD})
    return records.join(acked["ledger"], ["producer", "seq"], join_type="inner")


def _acknowledged(evidence: Evidence, topic: TopicHop, some: Sequence[Place]) -> DataFrame:
    """Return the acknowledged records that lie in the stretches, with what the ledger says of each.

    Only differing blocks are joined: outside of them the ledger alone says what is in the topic, and where.
    """
    run, ledger, records = evidence.run, evidence.need("ledger"), evidence.need("records")
    producers = F.col("producer").isin(sorted({one[2] for one in some}))
    acked = ledger.where((F.col("outcome") == "acked") & producers & ~expired(run))
    rest = in_stretches(in_blocks(acked, topic.blocks, ["producer"], "seq", inside=False), some)
    outside = rest.select(*KEYS, "via", *_SENT)
    inside = in_blocks(ledger, topic.blocks, ["producer"], "seq")
    records = in_blocks(records, topic.blocks, ["producer"], "seq")
    rows = in_stretches(intact(of_run(records, run)), some).select(*KEYS, "seq", "offset")
    if topic.copies is not None:
        copies = topic.copies
        if isinstance(copies, pa.Table):
            copies = rows.sparkSession.createDataFrame(copies)
        rows = rows.join(F.broadcast(copies), list(_PLACE), "anti")
    told = inside.where((F.col("outcome") == "acked") & producers).select(*_TOLD)
    return outside.unionByName(rows.join(told, ["producer", "seq"], "inner"))


def _here(copies: DataFrame | pa.Table) -> pa.Table:
    return copies if isinstance(copies, pa.Table) else copies.toArrow()


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


def by_sequence(rows: DataFrame) -> DataFrame:
    """An idempotent producer keeps its order: the next record in a partition has a higher seq."""
    window = Window.partitionBy(*_KEYS).orderBy("offset")
    return _inverted(rows, window, ["after_seq", "after_offset"])


def by_request(rows: DataFrame) -> DataFrame:
    """What REST promises (spark_checks.delivery.requests); shuffles the rows by partition and producer."""
    return rows.groupBy(*KEYS).applyInArrow(disordered, SCHEMA)


def _inverted(rows: DataFrame, window: object, names: list[str]) -> DataFrame:
    """Return rows whose neighbour at the next lower offset has a higher seq."""
    seq, offset = names
    return (
        rows.withColumn(seq, F.lag("seq").over(window))  # type: ignore[arg-type]  # WindowSpec differs by backend
        .withColumn(offset, F.lag("offset").over(window))  # type: ignore[arg-type]  # as above
        .where(F.col(seq) > F.col("seq"))
        .select(F.lit("reordered").alias("kind"), *_SHOWN)
    )


def stretches(parts: Folded, beside: int, whole: set[int]) -> dict[Key, list[Stretch]]:
    """Return where intact records stand before one that they had to follow, with enough of what is around.

    Of two records that follow on one another when some others are left out, the first can only have the
    higher number if numbers go down somewhere between them. So where at most ``beside`` records are left out,
    the stretches that reach over as many and one more on both sides of each fall hold all such pairs.

    Args:
        parts: spans and falls of the records (see ``folds.rising``).
        beside: how many intact records are left out later at most.
        whole: producers of which all records of a partition are needed when one falls.
    """
    spans: dict[Key, list[Mapping[str, Any]]] = defaultdict(list)
    falls: dict[Key, list[Mapping[str, Any]]] = defaultdict(list)
    for name, into in (("spans", spans), ("falls", falls)):
        for row in parts.rows(name):
            into[row["topic"], row["partition"], row["producer"]].append(row)
    found: dict[Key, list[Stretch]] = {}
    for key, mine in spans.items():
        mine.sort(key=lambda one: one["from_offset"])
        mixed = any(not one["sorted"] for one in mine) or any(
            after["from_offset"] <= before["to_offset"] for before, after in pairwise(mine)
        )
        between = [n for n, (one, two) in enumerate(pairwise(mine), 1) if two["first_seq"] <= one["last_seq"]]
        if not (mixed or between or falls[key]):
            continue
        if mixed or key[2] in whole or beside >= AROUND:
            found[key] = [WHOLE]
            continue
        some = [(_back(mine, n - 1, beside), _ahead(mine, n, beside)) for n in between]
        some = _joined(some + _inside(mine, falls[key], beside))
        found[key] = some if len(some) <= _MOST else [WHOLE]
    return found


def _inside(
    spans: Sequence[Mapping[str, Any]], falls: Sequence[Mapping[str, Any]], beside: int
) -> list[Stretch]:
    """Return the stretches around falls within spans; those cut off at a span's end reach over it."""
    begins = {one["from_offset"]: number for number, one in enumerate(spans)}
    ends = {one["to_offset"]: number for number, one in enumerate(spans)}
    found = []
    for one in falls:
        begin, end = one["from_offset"], one["to_offset"]
        before, after = begins.get(begin, 0), ends.get(end, len(spans) - 1)
        found.append((
            _back(spans, before - 1, beside) if before else begin,
            _ahead(spans, after + 1, beside) if after < len(spans) - 1 else end,
        ))  # fmt: skip
    return found


def _back(spans: Sequence[Mapping[str, Any]], number: int, beside: int) -> int:
    """Return where a span begins so that more than ``beside`` records lie from there to that one's end."""
    rows = 0
    for at in range(number, -1, -1):
        rows += spans[at]["rows"]
        if rows > beside:
            return int(spans[at]["from_offset"])
    return 0


def _ahead(spans: Sequence[Mapping[str, Any]], number: int, beside: int) -> int:
    rows = 0
    for one in spans[number:]:
        rows += one["rows"]
        if rows > beside:
            return int(one["to_offset"])
    return WHOLE[1]


def _joined(some: list[Stretch]) -> list[Stretch]:
    """Return stretches of which none touches another."""
    found: list[Stretch] = []
    for begin, end in sorted(some):
        if found and begin <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found
