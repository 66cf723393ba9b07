"""Order within a partition, as far as the interface promises it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.delivery.producer_to_topic import TopicHop
from spark_checks.engine.anomalies import tally
from spark_checks.engine.blocks import in_blocks
from spark_checks.engine.facts import expired, intact, of_run, record_blocks
from spark_checks.engine.readers import Evidence
from spark_checks.engine.runs import code_of, runs
from spark_checks.results import Anomaly

#: Partition of a topic, and producer: within these order is promised.
KEYS: Final = ("topic", "partition", "producer")
_PLACE: Final = ("topic", "partition", "offset")
_SHOWN: Final = (*KEYS, "seq", "offset", "after_seq", "after_offset", "via")


def reordered(evidence: Evidence, topic: TopicHop) -> dict[str, Anomaly]:
    """Find acknowledged records that stand in a partition before one that they had to follow.

    The records are looked at along their offsets first, without a shuffle; only the partitions and producers
    in which some sequence number goes down are looked at exactly. By REST, where several requests are in
    flight at once, these are most.

    Args:
        evidence: ledger, records and run.json.
        topic: what the first hop found: a second copy is a duplicate, no inversion.
    """
    records = intact(of_run(evidence.need("records"), evidence.run)).select(*KEYS, "seq", "offset")
    if topic.copies is not None:
        records = records.join(F.broadcast(topic.copies), [*_PLACE], "anti")
    ascending = runs(records, KEYS, "offset", "seq", consecutive=False)
    # Runs of one key may overlap where its offsets lie in several files: then the order is not known.
    down = ascending.where("first_value <= before_value or first_order <= before_order").select("code")
    some = [one.asDict() for one in down.distinct().join(F.broadcast(_keys(evidence)), "code").collect()]
    if not some:
        return {}
    return tally(inverted(acknowledged(evidence, records, topic, some)), _PLACE)


def _keys(evidence: Evidence) -> DataFrame:
    """Return :data:`KEYS` of the records, and the code of each."""
    known = record_blocks(evidence).filter(pc.field("producer").is_valid()).group_by([*KEYS]).aggregate([])
    rows = [tuple(row[key] for key in KEYS) for row in known.to_pylist()]
    schema = evidence.need("records").select(*KEYS).schema
    return evidence.session.createDataFrame(rows, schema).withColumn("code", code_of(KEYS))


def acknowledged(
    evidence: Evidence, records: DataFrame, topic: TopicHop, some: Sequence[Mapping[str, Any]]
) -> DataFrame:
    """Return the acknowledged records of some keys, each once, with what the ledger says of them.

    Args:
        evidence: the ledger, and run.json.
        records: :data:`KEYS`, seq, offset.
        topic: what the first hop found.
        some: :data:`KEYS`, and the code of each.

    Returns:
        :data:`KEYS`, seq, offset, via, sent_us, acked_us, instance.
    """
    # Spark leaves out the parts of files that hold none of these producers.
    producers = F.col("producer").isin(sorted({one["producer"] for one in some}))
    mine = producers & code_of(KEYS).isin([one["code"] for one in some])
    acked = evidence.need("ledger").where((F.col("outcome") == "acked") & producers & ~expired(evidence.run))
    # Outside of differing blocks a record lies where it was acknowledged: most of the ledger is left out.
    placed = in_blocks(acked, topic.blocks, ["producer"], "seq", inside=False).where(mine)
    sent = placed.unionByName(in_blocks(acked, topic.blocks, ["producer"], "seq"))
    told = sent.select("producer", "seq", "via", "sent_us", "acked_us", "instance")
    return records.where(mine).join(told, ["producer", "seq"], "inner")


def inverted(rows: DataFrame) -> DataFrame:
    """Return rows that stand before one that they had to follow, as far as an order is promised.

    An idempotent producer keeps its order: a row with a lower number than its neighbour is one. Requests to
    REST that are in flight at once have no order. What is promised there: the records of one request (same
    time of sending, and instance) keep the order of its array; and a request that was sent after another had
    been answered lies behind it. A record that stands wrongly in both ways counts once.

    Args:
        rows: as :func:`acknowledged` returns them.
    """
    # Every window is of a partition and a producer, so that the rows are shuffled once.
    sequence = Window.partitionBy(*KEYS, "via").orderBy("offset")
    request = Window.partitionBy(*KEYS, "via", "sent_us", "instance").orderBy("offset")
    by_rest = F.col("via") == "rest"
    neighbour = F.lag(F.struct("seq", "offset"))
    rows = rows.withColumn(
        "before", F.when(by_rest, neighbour.over(request)).otherwise(neighbour.over(sequence))
    )
    # Sendings and answers in one order: what comes in the same microsecond had not been answered.
    sent = F.struct(F.col("sent_us").alias("at"), F.lit(False).alias("answer"))
    answered = F.struct(F.col("acked_us").alias("at"), F.lit(True).alias("answer"))
    events = rows.withColumn(
        "event", F.explode(F.when(by_rest, F.array(sent, answered)).otherwise(F.array(sent)))
    )
    so_far = (
        Window.partitionBy(*KEYS, "via")
        .orderBy("event.at", "event.answer")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    furthest = F.max(F.when(F.col("event.answer"), F.struct("offset", "seq"))).over(so_far)
    within = F.coalesce(F.col("before.seq") > F.col("seq"), F.lit(False))
    behind = by_rest & F.coalesce(F.col("furthest.offset") > F.col("offset"), F.lit(False))
    after = {
        name: F.when(within, F.col(f"before.{name}")).otherwise(F.col(f"furthest.{name}"))
        for name in ("seq", "offset")
    }
    return (
        events.withColumn("furthest", furthest)
        .where(~F.col("event.answer") & (within | behind))
        .withColumns({f"after_{name}": column for name, column in after.items()})
        .select(F.lit("reordered").alias("kind"), *_SHOWN)
    )
