"""What checks ask of ledger, records and deliveries: each table aggregated by Spark in one pass.

What is summed up of a table is counted by all keys that any check asks for, and kept by Spark until the audit
ends: the first check that asks has Spark compute it (``Evidence.shared``). What is collected of it are a few
rows a second, and a partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from kedge.evidence.run import Run
from spark_checks.engine.blocks import BLOCK_BITS, digest
from spark_checks.engine.contract import check_rows, stray
from spark_checks.engine.percentiles import percentiles_by
from spark_checks.engine.readers import Evidence
from spark_checks.engine.spark_types import local_rows
from spark_checks.engine.time_bins import MOST_POINTS, grain_us, second_of

#: Three significant digits: what is below a bound is told in steps of so much.
_STEPS: Final = {10**digits: 10 ** (digits - 3) for digits in range(3, 8)}
_LAST_STEP: Final = 100_000
#: By what rows are counted, first of all by block: no product of producers and partitions is among them, nor
#: of consumers and blocks. The last set of a table makes its totals.
_SETS: Final[Mapping[str, Sequence[tuple[str, ...]]]] = {
    "ledger": (
        ("producer", "block", "outcome"),
        ("via", "instance", "outcome", "acked_s"),
        ("via", "intended_s"),
        ("topic", "partition", "outcome", "acked_s"),
        ("topic", "partition", "outcome", "intended_s"),
        ("outcome",),
    ),
    "records": (
        ("producer", "block", "ours", "crc_ok", "key_ok"),
        ("topic", "partition", "place_block", "ours"),
        ("topic", "partition", "intended_s", "timed"),
        ("ours", "crc_ok"),
    ),
    "deliveries": (
        ("group", "topic", "partition", "block"),
        ("group", "topic", "partition", "received_s"),
        ("group", "consumer", "topic", "partition"),
        (),
    ),
}
#: What is no sum.
_LEAST: Final = ("first_seq", "least")
_MOST: Final = ("last_seq", "most")


class Counts(NamedTuple):
    """What was counted of a table: rows of all sets of keys, kept by Spark, and its totals."""

    rows: DataFrame
    totals: Sequence[Row]


def at_places(*places: tuple[str, str]) -> Column:
    """Return whether a record is in one of these topics, each (cluster, topic)."""
    # Flat, but for the clusters: an expression as deep as topics are many would overflow Spark's stack.
    topics: dict[str, list[str]] = defaultdict(list)
    for cluster, topic in sorted({*places}):
        topics[cluster].append(topic)
    each = ((F.col("cluster") == cluster) & F.col("topic").isin(of) for cluster, of in topics.items())
    return reduce(Column.__or__, each, F.lit(False))


def of_run(records: DataFrame, run: Run) -> DataFrame:
    """Return the records of the topics that generators wrote to, copies in mirrors left out."""
    return records.where(at_places(*((topic.cluster, topic.topic) for topic in run.source_topics())))


def intact(records: DataFrame) -> DataFrame:
    """Return the records whose identity can be trusted, because their checksum is right."""
    return records.where(F.col("producer").isNotNull() & F.col("crc_ok"))


def to_groups(deliveries: DataFrame, run: Run) -> DataFrame:
    """Return the deliveries of the run's records to the run's groups."""
    return deliveries.where(F.col("producer").isNotNull() & F.col("group").isin(list(run.groups)))


def with_expired(rows: DataFrame, run: Run) -> DataFrame:
    """Add ``expired``: whether topic, partition and offset lie before the log start: retention took that."""
    starts = [
        (topic.topic, *start) for topic in run.source_topics() for start in topic.expired_below().items()
    ]
    if not starts:
        return rows.withColumn("expired", F.lit(False))
    begun = local_rows(rows.sparkSession, starts, "topic string, partition int, log_start long")
    expired = F.coalesce(F.col("offset") < F.col("log_start"), F.lit(False))
    marked = rows.join(F.broadcast(begun), ["topic", "partition"], "left").withColumn("expired", expired)
    return marked.drop("log_start")


def ledger_by(evidence: Evidence, *keys: str) -> DataFrame:
    """Return the ledger by one of :data:`_SETS`.

    Columns: the keys (block is one of sequence numbers; intended_s and acked_s count from the steady window's
    begin); records and expired; the digest (rows, one, two) of acknowledged records that retention left;
    first_seq, last_seq; bytes; sent_us and acked_us (sums since the run's begin); who (the sum of the
    identities' hashes).
    """
    return _set_of(_counts(evidence, "ledger").rows, "ledger", keys)


def ledger_totals(evidence: Evidence) -> Sequence[Row]:
    """Return the ledger by outcome: records, expired."""
    return _counts(evidence, "ledger").totals


def _ledger(ledger: DataFrame, run: Run) -> tuple[DataFrame, list[Column]]:
    acked = F.col("outcome") == "acked"
    rows = with_expired(ledger, run).withColumns({
        "block": F.shiftright("seq", BLOCK_BITS),
        "intended_s": second_of("intended_us", run),
        "acked_s": second_of("acked_us", run),
        "gone": acked & F.col("expired"),
    })  # fmt: skip
    return rows, [
        *digest(F.when(acked & ~F.col("gone"), _sent_record())),
        F.count(F.lit(1)).alias("records"),
        F.count_if("gone").alias("expired"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
        F.sum("bytes").alias("bytes"),
        F.sum(F.col("sent_us") - run.started_us).alias("sent_us"),
        F.sum(F.col("acked_us") - run.started_us).alias("acked_us"),
        F.sum(F.xxhash64("producer", "seq")).alias("who"),
    ]


def records_by(evidence: Evidence, *keys: str) -> DataFrame:
    """Return the records of the run's topics by one of :data:`_SETS`.

    Columns: the keys (block is one of sequence numbers, place_block of offsets; ours: with an identity;
    timed: intact, and stamped by the broker); the digest of the record as the ledger's rows have it (rows,
    one, two) and as deliveries have it (place_rows, place_one, place_two); appended_us (a sum since the run's
    begin) and who (the sum of the identities' hashes).
    """
    return _set_of(_counts(evidence, "records").rows, "records", keys)


def record_totals(evidence: Evidence) -> Sequence[Row]:
    """Return the records of the run's topics by ours and crc_ok: rows."""
    return _counts(evidence, "records").totals


def _records(records: DataFrame, run: Run) -> tuple[DataFrame, list[Column]]:
    ours = F.col("producer").isNotNull()
    rows = of_run(records, run).withColumns({
        "ours": ours,
        "timed": ours & F.col("crc_ok") & (F.col("timestamp_type") == "append"),
        "block": F.shiftright("seq", BLOCK_BITS),
        "place_block": F.shiftright("offset", BLOCK_BITS),
        "intended_s": second_of("intended_us", run),
    })  # fmt: skip
    return rows, [
        *digest(_sent_record()),
        *digest(_delivered_record(), "place_"),
        F.sum(F.col("timestamp_us") - run.started_us).alias("appended_us"),
        F.sum(F.xxhash64("producer", "seq")).alias("who"),
    ]


def deliveries_by(evidence: Evidence, *keys: str) -> DataFrame:
    """Return the deliveries to the run's groups by one of :data:`_SETS`.

    Columns: the keys (block is one of offsets; received_s counts from the steady window's begin); the digest
    (rows, one, two).
    """
    return _set_of(_counts(evidence, "deliveries").rows, "deliveries", keys)


def _deliveries(deliveries: DataFrame, run: Run) -> tuple[DataFrame, list[Column]]:
    block, second = F.shiftright("offset", BLOCK_BITS), second_of("received_us", run)
    rows = to_groups(deliveries, run).withColumns({"block": block, "received_s": second})
    return rows, digest(_delivered_record())


def _sent_record() -> Column:
    """Hash what a row of the ledger and its record have in common."""
    return F.xxhash64("producer", "seq", "topic", "partition", "offset", "crc")


def _delivered_record() -> Column:
    """Hash what a record and its delivery have in common; both are compared within a partition."""
    return F.xxhash64("producer", "seq", "offset")


def acked_grains(evidence: Evidence) -> DataFrame:
    """Return acknowledgements by (via, topic, partition) and grain: first_us, last_us, highest, records."""
    ledger, width = evidence.need("ledger"), grain_us(evidence.run)
    acked = ledger.where(F.col("outcome") == "acked")
    return evidence.shared.get("acked grains", lambda: grains(acked, "via", "acked_us", width).persist())


def delivered_grains(evidence: Evidence) -> DataFrame | None:
    """Return deliveries by (group, topic, partition) and grain; None where there are none."""
    if not evidence.has("deliveries") or not evidence.run.groups:
        return None
    got, width = to_groups(evidence.need("deliveries"), evidence.run), grain_us(evidence.run)
    return evidence.shared.get(
        "delivered grains", lambda: grains(got, "group", "received_us", width).persist()
    )


def grains(rows: DataFrame, who: str, at: str, width_us: int) -> DataFrame:
    """Return rows by (who, topic, partition) and grain: first_us, last_us, highest (offset), records."""
    return rows.groupBy(who, "topic", "partition", F.expr(f"{at} div {width_us}").alias("grain")).agg(
        F.min(at).alias("first_us"),
        F.max(at).alias("last_us"),
        F.max("offset").alias("highest"),
        F.count(F.lit(1)).alias("records"),
    )


def ack_latencies(evidence: Evidence) -> DataFrame:
    """Return how long records of the steady window took to their acknowledgement.

    Columns: via, acked, us (rounded up to three digits; of what was not acknowledged 0), records, longest
    (us, exact).
    """
    return together(_ack_counts(evidence), "via", "acked")


def ack_by_second(evidence: Evidence) -> DataFrame:
    """Return percentiles of the time to the acknowledgement: via, second, p50_us, p99_us, in order."""
    acked = _ack_counts(evidence).where("acked")
    of_second = percentiles_by(acked, ("via", "second"), "us", "records", {"p50_us": 50, "p99_us": 99})
    return of_second.orderBy("via", "second")


def _ack_counts(evidence: Evidence) -> DataFrame:
    """Count times to the acknowledgement by second; kept, since two facts are made of it."""
    run, acked = evidence.run, F.col("outcome") == "acked"
    width = max(1, -(-int(run.measured_s) // MOST_POINTS))
    second = (F.floor(second_of("intended_us", run) / width) * width).cast("int")
    took = F.when(acked, F.col("acked_us") - F.col("intended_us")).otherwise(F.lit(0).cast("long"))
    rows = evidence.need("ledger").withColumns({"acked": acked, "second": second})
    counted = counted_times(rows, took, run, "via", "acked", "second")
    return evidence.shared.get("ack counts", counted.persist)


def append_latencies(evidence: Evidence) -> DataFrame:
    """Return how long records of the steady window took to their append: via, us, records, longest."""
    run = evidence.run
    stamped = intact(of_run(evidence.need("records"), run)).where(F.col("timestamp_type") == "append")
    return counted_times(_sent(stamped, run), F.col("timestamp_us") - F.col("intended_us"), run, "via")


def delivery_latencies(received: DataFrame, run: Run) -> DataFrame:
    """Return how long deliveries of the steady window took, by the interface that sent them.

    Args:
        received: producer, intended_us, received_us.

    Returns:
        via, us, records, longest (us, exact).
    """
    return counted_times(_sent(received, run), F.col("received_us") - F.col("intended_us"), run, "via")


def _sent(rows: DataFrame, run: Run) -> DataFrame:
    """Return the rows of producers that run.json has, each with the interface (``via``) of its producer."""
    via = F.lit(None).cast("string")
    for name in {about.via for about in run.producers.values()}:
        mine = [number for number, about in run.producers.items() if about.via == name]
        via = F.when(F.col("producer").isin(mine), F.lit(name)).otherwise(via)
    return rows.withColumn("via", via).where("via is not null")


def counted_times(rows: DataFrame, took: Column, run: Run, *keys: str) -> DataFrame:
    """Count rows of the steady window by how long they took, rounded up to three digits."""
    intended = F.col("intended_us")
    steady = (intended >= run.measured_from_us) & (intended < run.measured_until_us)
    timed = rows.where(steady).withColumn("took", took).withColumn("us", rounded("took"))
    return timed.groupBy(*keys, "us").agg(F.count(F.lit(1)).alias("records"), F.max("took").alias("longest"))


def together(counted: DataFrame, *keys: str) -> DataFrame:
    """Add up counts of times: keys, us, records, longest."""
    return counted.groupBy(*keys, "us").agg(
        F.sum("records").alias("records"), F.max("longest").alias("longest")
    )


def rounded(column: str) -> Column:
    """Round whole numbers up to three significant digits: what is told is never better than what was."""
    value, step = F.col(column), F.lit(_LAST_STEP)
    for below, size in reversed(_STEPS.items()):
        step = F.when(value < below, F.lit(size)).otherwise(step)
    return (F.ceil(value / step) * step).cast("long")


def _counts(evidence: Evidence, table: str) -> Counts:
    """Return a table's counts; rows of :func:`contract.stray` are looked at as Spark makes them.

    A table is read once. Its rows are counted by all keys together first; so many rows are shuffled as these
    counts are, and as many once more for each set. What is left of them is few. The number of a set is
    ``of``, and keys outside of it are null in its rows.
    """
    query = {"ledger": _ledger, "records": _records, "deliveries": _deliveries}[table]

    def make() -> Counts:
        rows, sums = query(evidence.need(table), evidence.run)
        keys = _keys_of(table)
        counted = rows.groupBy(*keys).agg(*sums, *stray(table))
        added = [_added(name) for name in counted.columns if name not in keys]
        sets = counted.groupingSets([*_SETS[table]], *keys).agg(F.grouping_id().alias("of"), *added)
        # Sets lie together, so that whoever reads one passes over the others.
        kept = sets.sortWithinPartitions("of").persist()
        found = _set_of(kept, table, _SETS[table][-1]).collect()
        check_rows(found, evidence.need(table), table, evidence.run)
        return Counts(kept, found)

    return evidence.shared.get(f"{table} counts", make)


def _added(name: str) -> Column:
    """Return the aggregate by which counts become those of larger groups."""
    how = F.min if name in _LEAST else F.max if name in _MOST else F.sum
    return how(name).alias(name)


def _set_of(counted: DataFrame, table: str, keys: Sequence[str]) -> DataFrame:
    """Return the rows of one set, with its keys."""
    assert tuple(keys) in _SETS[table]
    every = _keys_of(table)
    # As Spark numbers them: a bit for each key that was summed up, the last key's the lowest.
    of = sum(1 << place for place, key in enumerate(reversed(every)) if key not in keys)
    return counted.where(F.col("of") == of).drop("of", *(key for key in every if key not in keys))


def _keys_of(table: str) -> list[str]:
    return list(dict.fromkeys(key for keys in _SETS[table] for key in keys))
