"""Order within a partition, as far as the interface promises it."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.delivery.producer_to_topic import TopicHop
from spark_checks.engine.anomalies import tally
from spark_checks.engine.blocks import in_blocks
from spark_checks.engine.facts import expired, intact, of_run
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
    down = "first_value <= before_value or first_order <= before_order"
    some = [row["code"] for row in ascending.where(down).select("code").distinct().collect()]
    if not some:
        return {}
    rows = acknowledged(evidence, records, topic, some)
    # Shuffles those rows by partition and producer, of REST twice.
    found = (by_sequence(rows.where("via != 'rest'")), by_request(rows.where("via = 'rest'")))
    return tally(reduce(DataFrame.unionByName, found), _PLACE)


def acknowledged(evidence: Evidence, records: DataFrame, topic: TopicHop, codes: list[int]) -> DataFrame:
    """Return the acknowledged records of some keys, each once, with what the ledger says of them.

    Returns:
        :data:`KEYS`, seq, offset, via, sent_us, acked_us, instance.
    """
    acked = evidence.need("ledger").where((F.col("outcome") == "acked") & ~expired(evidence.run))
    # Outside of differing blocks a record lies where it was acknowledged: most of the ledger is left out.
    placed = in_blocks(acked, topic.blocks, ["producer"], "seq", inside=False).where(
        code_of(KEYS).isin(codes)
    )
    sent = placed.unionByName(in_blocks(acked, topic.blocks, ["producer"], "seq"))
    told = sent.select("producer", "seq", "via", "sent_us", "acked_us", "instance")
    return records.where(code_of(KEYS).isin(codes)).join(told, ["producer", "seq"], "inner")


def by_sequence(rows: DataFrame) -> DataFrame:
    """Return rows with a lower number than their neighbour: an idempotent producer keeps its order."""
    window = Window.partitionBy(*KEYS).orderBy("offset")
    return _after(rows, F.lag(F.struct("seq", "offset")).over(window)).where("after_seq > seq").select(
        F.lit("reordered").alias("kind"), *_SHOWN
    )  # fmt: skip


def by_request(rows: DataFrame) -> DataFrame:
    """Return rows that stand before one that they had to follow, as far as REST promises an order.

    Requests in flight at once have none. What is promised: the records of one request (same time of sending,
    and instance) keep the order of its array; and a request that was sent after another had been answered
    lies behind it. A record that stands wrongly in both ways counts once.
    """
    request = Window.partitionBy(*KEYS, "sent_us", "instance").orderBy("offset")
    within = _after(rows, F.lag(F.struct("seq", "offset")).over(request)).where("after_seq > seq")
    found = within.unionByName(_behind_answered(rows)).withColumn("kind", F.lit("reordered"))
    return found.groupBy(*_PLACE).agg(
        *(F.first(name).alias(name) for name in ("kind", *_SHOWN) if name not in _PLACE)
    )


def _behind_answered(rows: DataFrame) -> DataFrame:
    """Return rows that lie before a record that had been answered when they were sent, with the last such.

    Sendings and answers are put in one order: what comes in the same microsecond had not been answered.
    """
    sent = rows.where(F.col("sent_us").isNotNull()).withColumns(
        {"at": F.col("sent_us"), "answer": F.lit(False)}
    )
    answers = rows.withColumns({"at": F.col("acked_us"), "answer": F.lit(True)})
    so_far = (
        Window.partitionBy(*KEYS)
        .orderBy("at", "answer")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    last = F.max(F.when(F.col("answer"), F.struct("offset", "seq"))).over(so_far)
    swapped = F.struct(last["seq"].alias("seq"), last["offset"].alias("offset"))
    found = _after(sent.unionByName(answers), swapped).where(
        ~F.col("answer") & F.expr("after_offset > offset")
    )
    return found.drop("at", "answer")


def _after(rows: DataFrame, other: Column) -> DataFrame:
    """Add after_seq and after_offset, those of another record (a struct of seq and offset)."""
    return rows.withColumns({"after_seq": other["seq"], "after_offset": other["offset"]})
