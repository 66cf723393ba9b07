"""Order within a partition, as far as the interface promises it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.delivery.producer_to_topic import TopicHop
from spark_checks.engine.anomalies import tally
from spark_checks.engine.blocks import in_blocks
from spark_checks.engine.facts import intact, of_run, with_expired
from spark_checks.engine.ordered_runs import code_of, runs
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly

#: Partition of a topic, and producer: within these order is promised.
KEYS: Final = ("topic", "partition", "producer")
_PLACE: Final = ("topic", "partition", "offset")
_SHOWN: Final = (*KEYS, "seq", "offset", "after_seq", "after_offset", "via")


def reordered(evidence: Evidence, to_topic: TopicHop) -> dict[str, Anomaly]:
    """Find acknowledged records whose places in a partition contradict the order in which they were sent.

    The records are looked at along their offsets first, without a shuffle; only the partitions and producers
    in which some sequence number goes down are looked at exactly. By REST, where several requests are in
    flight at once, these are most.

    Args:
        to_topic: what the first hop found: a second copy is a duplicate, no inversion.
    """
    records = intact(of_run(evidence.need("records"), evidence.run)).select(*KEYS, "seq", "offset")
    if to_topic.copies is not None:
        # Broadcast by Spark itself, unless copies are many.
        records = records.join(to_topic.copies, [*_PLACE], "anti")
    stretches = runs(records, KEYS, "offset", "seq", consecutive=False)
    # The sequence goes down from one stretch to the next; or stretches overlap, since offsets of a key lie in
    # several files, and its order is not known yet.
    suspects = stretches.where("first_value <= before_value or first_order <= before_order").select("code")
    # By REST they may be as many as producers times partitions: they stay with Spark.
    suspects = suspects.distinct().persist()
    if suspects.isEmpty():
        return {}
    return tally(inverted(acknowledged(evidence, records, to_topic, suspects)), _PLACE)


def acknowledged(
    evidence: Evidence, records: DataFrame, to_topic: TopicHop, suspects: DataFrame
) -> DataFrame:
    """Return the acknowledged records of some keys, each once, with what the ledger says of them.

    Args:
        records: :data:`KEYS`, seq, offset.
        suspects: the code of each key (:func:`code_of`).

    Returns:
        :data:`KEYS`, seq, offset, via, sent_us, acked_us, instance.
    """
    acked = with_expired(evidence.need("ledger").where("outcome = 'acked'"), evidence.run).where(
        "not expired"
    )
    # Outside of differing blocks a record lies where it was acknowledged: most of the ledger is left out.
    placed = _suspected(in_blocks(acked, to_topic.blocks, "seq", inside=False), suspects)
    rows = placed.unionByName(in_blocks(acked, to_topic.blocks, "seq"))
    sent = rows.select("producer", "seq", "via", "sent_us", "acked_us", "instance")
    return _suspected(records, suspects).join(sent, ["producer", "seq"], "inner")


def _suspected(rows: DataFrame, suspects: DataFrame) -> DataFrame:
    return rows.withColumn("code", code_of(KEYS)).join(suspects, "code", "semi").drop("code")


def inverted(rows: DataFrame) -> DataFrame:
    """Return rows whose places contradict the order of sending, as far as an order is promised.

    An idempotent producer keeps its order: a row with a lower number than the one before it is inverted.
    Requests to REST that are in flight at once have no order. What is promised there: the records of one
    request (same time of sending, and instance) keep the order of its array; and a request that was sent
    after another had been answered lies behind it. A record that breaks both promises counts once.

    Args:
        rows: as :func:`acknowledged` returns them.
    """
    # Both promises in one pass. ``before`` is the row before in the partition (by REST: of the same request),
    # ``furthest`` the record with the highest offset of all that had been answered when this one was sent.
    # Every window is of a partition and a producer, so that the rows are shuffled once.
    sequence = Window.partitionBy(*KEYS, "via").orderBy("offset")
    request = Window.partitionBy(*KEYS, "via", "sent_us", "instance").orderBy("offset")
    by_rest = F.col("via") != "kafka"
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
    lower = F.coalesce(F.col("before.seq") > F.col("seq"), F.lit(False))
    overtaking = by_rest & F.coalesce(F.col("furthest.offset") > F.col("offset"), F.lit(False))
    after = {
        name: F.when(lower, F.col(f"before.{name}")).otherwise(F.col(f"furthest.{name}"))
        for name in ("seq", "offset")
    }
    return (
        events.withColumn("furthest", furthest)
        .where(~F.col("event.answer") & (lower | overtaking))
        .withColumns({f"after_{name}": column for name, column in after.items()})
        .select(F.lit("reordered").alias("kind"), *_SHOWN)
    )
