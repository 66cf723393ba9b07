"""Order within a partition, as far as the interface promises it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.facts import of_run
from spark_checks.hops.found import tally
from spark_checks.hops.topic import intact
from spark_checks.model import Anomaly
from spark_checks.run import Run
from spark_checks.sequences import SCHEMA, folder

_KEYS = ["topic", "partition", "producer"]
_SHOWN = ["topic", "partition", "producer", "seq", "offset", "after_seq", "after_offset", "via"]


def reordered(
    ledger: DataFrame, records: DataFrame, duplicates: DataFrame | None, run: Run
) -> dict[str, Anomaly]:
    """Find acknowledged records that stand in a partition before one that they had to follow.

    The records are folded into rising runs first, without a shuffle; only partitions of a producer in which
    some sequence number goes down are looked at exactly, and that reads and sorts those.

    Args:
        ledger: the ledger.
        records: the records table.
        duplicates: identities found more than once (producer, seq, home, places), or None: a second copy is a
            duplicate, no inversion.
        run: run.json.
    """
    good = intact(of_run(records, run))
    suspects = falling(good).persist()
    if suspects.isEmpty():
        return {}
    rows = good.join(F.broadcast(suspects), _KEYS, "semi").select(*_KEYS, "seq", "offset")
    if duplicates is not None:
        rows = without_copies(rows, duplicates)
    acked = ledger.where(F.col("outcome") == "acked").select(
        "producer", "seq", "via", "sent_us", "acked_us", "instance"
    )
    # Only producers in question are joined: those of REST, mostly, which have several requests in flight.
    asked = F.broadcast(suspects.select("producer").distinct())
    joined = rows.join(acked.join(asked, "producer", "semi"), ["producer", "seq"], "inner").persist()
    found = (
        by_sequence(joined.where("via != 'rest'"))
        .unionByName(within_request(joined.where("via = 'rest'")))
        .unionByName(after_acknowledgement(joined.where("via = 'rest'")))
    )
    result = tally(found.dropDuplicates(["topic", "partition", "offset"]), ["topic", "partition", "offset"])
    joined.unpersist()
    suspects.unpersist()
    return result


def falling(good: DataFrame) -> DataFrame:
    """Return the (topic, partition, producer) in which a higher offset holds a lower sequence number."""
    # One batch may hold the end of a file and the begin of another: a run over both would seem to overlap
    # with what lies between them.
    file = F.input_file_name()
    rows = good.select(F.xxhash64(*_KEYS, file).alias("code"), "offset", "seq")
    runs = rows.mapInArrow(folder(consecutive=False), SCHEMA)
    names = good.select(F.xxhash64(*_KEYS, file).alias("code"), *_KEYS).distinct()
    runs = runs.join(F.broadcast(names), "code", "inner")
    window = Window.partitionBy(*_KEYS).orderBy("first_order")
    runs = runs.withColumn("before_seq", F.lag("last_value").over(window)).withColumn(
        "before_offset", F.lag("last_order").over(window)
    )
    # Runs that overlap in offsets come from rows out of order in the files: only an exact look can tell.
    fell = (F.col("first_value") <= F.col("before_seq")) | (F.col("first_order") <= F.col("before_offset"))
    return runs.where(fell).select(*_KEYS).distinct()


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
