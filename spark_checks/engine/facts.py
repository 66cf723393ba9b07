"""What checks ask of ledger, records and deliveries: each an aggregation by Spark, collected once.

A fact is a table of a few rows a second and partition. The first check that asks for one has Spark compute
it; the others get the same rows (``Evidence.shared``). What follows from several of them (a comparison of two
digests, a percentile of counted values) is computed on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kedge.evidence.run import Run
from spark_checks.engine.blocks import BLOCK_BITS, digest
from spark_checks.engine.contract import check_rows, stray
from spark_checks.engine.percentiles import percentiles_by
from spark_checks.engine.readers import Evidence
from spark_checks.engine.time_bins import MOST_POINTS, grain_us, second_of

#: Three significant digits: what is below a bound is told in steps of so much.
_STEPS: Final = {10**digits: 10 ** (digits - 3) for digits in range(3, 8)}
_LAST_STEP: Final = 100_000
#: By what rows of the ledger, and of the records, are counted: no product of producers and partitions but the
#: last, by which order is judged.
_OF_LEDGER: Final = (
    ("producer", "block", "outcome"),
    ("via", "instance", "outcome", "acked_s"),
    ("via", "intended_s"),
    ("topic", "partition", "outcome", "acked_s"),
    ("topic", "partition", "outcome", "intended_s"),
)
_OF_RECORDS: Final = (
    ("producer", "block", "crc_ok", "key_ok"),
    ("topic", "partition", "place_block", "ours"),
    ("topic", "partition", "intended_s", "timed"),
    ("topic", "partition", "producer"),
)
_COUNTED_BY: Final = {"stamped"}.union(*_OF_LEDGER, *_OF_RECORDS)


def at_places(*places: tuple[str, str]) -> Column:
    """Return whether a record is in one of these topics, each (cluster, topic)."""
    each = ((F.col("cluster") == cluster) & (F.col("topic") == topic) for cluster, topic in sorted({*places}))
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


def expired(run: Run, of: str = "") -> Column:
    """Return whether (topic, partition, offset) lies before the log start: retention took it away.

    Args:
        run: run.json.
        of: what stands before the three names, as ``sent.place.`` does of fields of a struct.
    """
    gone = F.lit(False)
    for topic in run.source_topics():
        for partition, start in topic.expired_below().items():
            at = (F.col(f"{of}topic") == topic.topic) & (F.col(f"{of}partition") == partition)
            gone = gone | (at & (F.col(f"{of}offset") < start))
    return F.coalesce(gone, F.lit(False))


def ledger_by(evidence: Evidence, *keys: str) -> pa.Table:
    """Return the ledger by one of :data:`_OF_LEDGER`.

    Columns: the keys (block is one of sequence numbers; intended_s and acked_s count from the steady window's
    begin); records, expired; the digest (rows, one, two) of acknowledged records that retention left;
    first_seq, last_seq; bytes; sent_us and acked_us (sums since the run's begin), and who (the sum of the
    identities' hashes).
    """
    run = evidence.run
    counts = (F.col("outcome") == "acked") & ~expired(run)
    hashed = F.when(counts, F.xxhash64("producer", "seq", "topic", "partition", "offset", "crc"))
    keys_of_all = ("producer", "via", "instance", "topic", "partition", "outcome")

    def query(ledger: DataFrame) -> DataFrame:
        counted = ledger.groupBy(
            *keys_of_all,
            F.shiftright("seq", BLOCK_BITS).alias("block"),
            second_of("intended_us", run).alias("intended_s"),
            second_of("acked_us", run).alias("acked_s"),
        ).agg(
            *digest(hashed),
            F.count(F.lit(1)).alias("records"),
            F.count_if((F.col("outcome") == "acked") & expired(run)).alias("expired"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
            F.sum("bytes").alias("bytes"),
            F.sum(F.col("sent_us") - run.started_us).alias("sent_us"),
            F.sum(F.col("acked_us") - run.started_us).alias("acked_us"),
            F.sum(F.xxhash64("producer", "seq")).alias("who"),
            *stray("ledger"),
        )
        return _rolled_up(counted, _OF_LEDGER)

    return _set_of(_fact(evidence, "ledger", "ledger counts", query), _OF_LEDGER, keys)


def ledger_blocks(evidence: Evidence) -> pa.Table:
    """Return the ledger by producer, block of sequence numbers and outcome."""
    return ledger_by(evidence, "producer", "block", "outcome")


def records_by(evidence: Evidence, *keys: str) -> pa.Table:
    """Return the records of the run's topics by one of :data:`_OF_RECORDS`.

    Columns: the keys (block is one of sequence numbers, place_block of offsets; ours: with an identity;
    timed: intact, and stamped by the broker); the digest of the record as the ledger's rows have it (rows,
    one, two) and as deliveries have it (place_rows, place_one, place_two); appended_us (a sum since the run's
    begin) and who (the sum of the identities' hashes).
    """
    run = evidence.run
    hashed = F.xxhash64("producer", "seq", "topic", "partition", "offset", "crc")

    def query(records: DataFrame) -> DataFrame:
        ours = F.col("producer").isNotNull()
        counted = (
            of_run(records, run)
            .groupBy(
                *("topic", "partition", "producer", "crc_ok", "key_ok"),
                (F.col("timestamp_type") == "append").alias("stamped"),
                F.shiftright("seq", BLOCK_BITS).alias("block"),
                F.shiftright("offset", BLOCK_BITS).alias("place_block"),
                second_of("intended_us", run).alias("intended_s"),
            )
            .agg(
                *digest(hashed),
                *digest(_delivered_record(), "place_"),
                F.sum(F.col("timestamp_us") - run.started_us).alias("appended_us"),
                F.sum(F.xxhash64("producer", "seq")).alias("who"),
                *stray("records"),
            )
            .withColumns({"ours": ours, "timed": ours & F.col("crc_ok") & F.col("stamped")})
        )
        return _rolled_up(counted, _OF_RECORDS)

    return _set_of(_fact(evidence, "records", "record counts", query), _OF_RECORDS, keys)


def record_blocks(evidence: Evidence) -> pa.Table:
    """Return the records of the run's topics by producer, block of sequence numbers, and soundness."""
    return records_by(evidence, "producer", "block", "crc_ok", "key_ok")


def _rolled_up(counted: DataFrame, sets: Sequence[Sequence[str]]) -> DataFrame:
    """Sum counts up by each set of keys, whose number is ``of``: keys outside of a set are null in its rows.

    So many rows are shuffled once more as there are counts, for each set; what is left of them is few.
    """
    keys = _keys_of(sets)
    how = {"first_seq": F.min, "least": F.min, "last_seq": F.max, "most": F.max}
    values = [name for name in counted.columns if name not in _COUNTED_BY]
    summed_up = (how.get(name, F.sum)(name).alias(name) for name in values)
    return counted.groupingSets([*sets], *keys).agg(F.grouping_id().alias("of"), *summed_up)


def _set_of(found: pa.Table, sets: Sequence[Sequence[str]], keys: Sequence[str]) -> pa.Table:
    """Return the rows of one set, with its keys."""
    assert tuple(keys) in sets
    every = _keys_of(sets)
    # As Spark numbers them: a bit for each key that was summed up, the last key's the lowest.
    of = sum(1 << place for place, key in enumerate(reversed(every)) if key not in keys)
    rows = found.filter(pc.field("of") == of)
    return rows.drop_columns(["of", *(key for key in every if key not in keys)])


def _keys_of(sets: Sequence[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(key for keys in sets for key in keys))


def delivery_blocks(evidence: Evidence) -> pa.Table:
    """Return the deliveries to the run's groups by group, consumer, place and block of offsets.

    Columns: group, consumer, topic, partition, block, and the digest (rows, one, two).
    """

    def query(deliveries: DataFrame) -> DataFrame:
        keys = ("group", "consumer", "topic", "partition", F.shiftright("offset", BLOCK_BITS).alias("block"))
        found = to_groups(deliveries, evidence.run).groupBy(*keys)
        return found.agg(*digest(_delivered_record()), *stray("deliveries"))

    return _fact(evidence, "deliveries", "delivery blocks", query)


def _delivered_record() -> Column:
    """Hash what a record and its delivery have in common; both are compared within a partition."""
    return F.xxhash64("producer", "seq", "offset")


def acked_grains(evidence: Evidence) -> pa.Table:
    """Return acknowledgements by (via, topic, partition) and grain: first_us, last_us, highest, records."""
    acked = F.col("outcome") == "acked"
    query = _grains("via", "acked_us", grain_us(evidence.run))
    return _fact(evidence, "ledger", "acked grains", lambda ledger: query(ledger.where(acked)))


def delivered_grains(evidence: Evidence) -> pa.Table | None:
    """Return deliveries by (group, topic, partition) and grain; None where there are none."""
    if not evidence.has("deliveries") or not evidence.run.groups:
        return None
    query = _grains("group", "received_us", grain_us(evidence.run))
    return _fact(evidence, "deliveries", "delivered grains", lambda got: query(to_groups(got, evidence.run)))


def applied_grains(rows: DataFrame, run: Run) -> DataFrame:
    """Return what applications made of records, as :func:`delivered_grains` has it.

    Args:
        rows: group (the application), topic, partition, offset (of the record in the input), received_us.
        run: run.json.
    """
    return _grains("group", "received_us", grain_us(run))(rows)


def _grains(who: str, at: str, width_us: int) -> Callable[[DataFrame], DataFrame]:
    def query(rows: DataFrame) -> DataFrame:
        return rows.groupBy(who, "topic", "partition", F.expr(f"{at} div {width_us}").alias("grain")).agg(
            F.min(at).alias("first_us"),
            F.max(at).alias("last_us"),
            F.max("offset").alias("highest"),
            F.count(F.lit(1)).alias("records"),
        )

    return query


def ack_latencies(evidence: Evidence) -> pa.Table:
    """Return how long records of the steady window took to their acknowledgement.

    Columns: via, acked, us (rounded up to three digits; of what was not acknowledged 0), records, most (us,
    exact).
    """
    keys = ("via", "acked", "us")
    return evidence.shared.get("ack latencies", lambda: _together(_ack_counts(evidence), *keys).toArrow())


def ack_by_second(evidence: Evidence) -> pa.Table:
    """Return percentiles of the time to the acknowledgement: via, second, p50_us, p99_us, in order."""

    def make() -> pa.Table:
        acked = _ack_counts(evidence).where("acked")
        of_second = percentiles_by(acked, ("via", "second"), "us", "records", {"p50_us": 50, "p99_us": 99})
        return of_second.orderBy("via", "second").toArrow()

    return evidence.shared.get("ack by second", make)


def _ack_counts(evidence: Evidence) -> DataFrame:
    """Count times to the acknowledgement by second; kept, since two facts are made of it."""

    def make() -> DataFrame:
        run = evidence.run
        acked = F.col("outcome") == "acked"
        took = F.when(acked, F.col("acked_us") - F.col("intended_us")).otherwise(F.lit(0).cast("long"))
        width = max(1, -(-int(run.measured_s) // MOST_POINTS))
        second = (F.floor(second_of("intended_us", run) / width) * width).cast("int").alias("second")
        rows = _steady(evidence.need("ledger"), run).withColumn("took", took)
        return _counted(rows, "via", acked.alias("acked"), second).persist()

    return evidence.shared.get("ack counts", make)


def append_latencies(evidence: Evidence) -> pa.Table:
    """Return how long records of the steady window took to their append: producer, us, records, most."""
    run = evidence.run

    def query(records: DataFrame) -> DataFrame:
        rows = _steady(intact(of_run(records, run)), run).where(F.col("timestamp_type") == "append")
        return _counted(_took(rows, "timestamp_us"), "producer")

    return _fact(evidence, "records", "append latencies", query)


def delivery_latencies(received: DataFrame, run: Run) -> DataFrame:
    """Return how long deliveries of the steady window took: producer, us, records, most (us, exact).

    Args:
        received: producer, intended_us, received_us.
        run: run.json.
    """
    return _counted(_took(_steady(received, run), "received_us"), "producer")


def applied_latencies(rows: DataFrame, run: Run) -> DataFrame:
    """Return how long applications took for records of the steady window: group, us, records, most.

    Args:
        rows: group (the application), intended_us, received_us.
        run: run.json.
    """
    took = F.greatest(F.col("received_us") - F.col("intended_us"), F.lit(0))
    return _counted(_steady(rows, run).withColumn("took", took), "group")


def _took(rows: DataFrame, at: str) -> DataFrame:
    return rows.withColumn("took", F.col(at) - F.col("intended_us"))


def _counted(rows: DataFrame, *keys: str | Column) -> DataFrame:
    """Count ``took`` by value, rounded up to three digits: keys, us, records, most."""
    counts = (F.count(F.lit(1)).alias("records"), F.max("took").alias("most"))
    return rows.groupBy(*keys, rounded("took").alias("us")).agg(*counts)


def _together(counted: DataFrame, *keys: str) -> DataFrame:
    return counted.groupBy(*keys).agg(F.sum("records").alias("records"), F.max("most").alias("most"))


def rounded(column: str) -> Column:
    """Round whole numbers up to three significant digits: what is told is never better than what was."""
    value, step = F.col(column), F.lit(_LAST_STEP)
    for below, size in reversed(_STEPS.items()):
        step = F.when(value < below, F.lit(size)).otherwise(step)
    return (F.ceil(value / step) * step).cast("long")


def _steady(rows: DataFrame, run: Run) -> DataFrame:
    """Return the rows of records intended in the steady window."""
    intended = F.col("intended_us")
    return rows.where((intended >= run.measured_from_us) & (intended < run.measured_until_us))


def _fact(evidence: Evidence, table: str, name: str, query: Callable[[DataFrame], DataFrame]) -> pa.Table:
    """Return a fact's rows; those of :func:`contract.stray` are looked at, and left out."""

    def make() -> pa.Table:
        found = query(evidence.need(table)).toArrow()
        if "nulls" not in found.column_names:
            return found
        check_rows(found, evidence.need(table), table, evidence.run)
        return found.drop_columns(["nulls", "least", "most"])

    return evidence.shared.get(name, make)


def appended(evidence: Evidence) -> pa.Table:
    """Return the intact records that the broker stamped: topic, partition, intended_s; records, who, at."""
    found = records_by(evidence, "topic", "partition", "intended_s", "timed").filter(pc.field("timed"))
    rows = found.rename_columns({"rows": "records", "appended_us": "at"})
    return rows.select(["topic", "partition", "intended_s", "records", "who", "at"])
