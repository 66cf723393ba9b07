"""Whether the evidence of the first hop is whole and one run's, before anything is concluded from it."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kedge.evidence.errors import EvidenceError
from kedge.evidence.run import Run
from spark_checks.engine.anomalies import tally
from spark_checks.engine.blocks import block, in_blocks, kept
from spark_checks.engine.facts import ledger_by, of_run
from spark_checks.engine.files import shown
from spark_checks.engine.readers import Evidence
from spark_checks.engine.spark_types import local_rows
from spark_checks.results import Anomaly


def claimed(spark: SparkSession, run: Run) -> DataFrame:
    """Return producer, and written: the rows that it says it wrote, where it ended properly and says so."""
    known = [(number, one.records) for number, one in run.producers.items() if one.records is not None]
    return local_rows(spark, known if run.complete else [], "producer int, written long")


def unledgered(evidence: Evidence) -> dict[str, Anomaly]:
    """Find what the ledger lacks of the rows that its generators wrote.

    Returns:
        Anomaly ``unledgered``, with an example for each hole (producer, seq to until_seq).

    Raises:
        EvidenceError: when the ledger holds one record twice.
    """
    by_block = ledger_by(evidence, "producer", "block", "outcome").groupBy("producer", "block").agg(
        F.sum("records").alias("records"),
        F.min("first_seq").alias("first_seq"),
        F.max("last_seq").alias("last_seq"),
    )  # fmt: skip
    crowded = F.col("records") > F.col("last_seq") - F.col("first_seq") + 1
    written = claimed(evidence.session, evidence.run)
    # A row a producer on each side.
    held = by_block.groupBy("producer").agg(
        F.sum("records").alias("records"), F.min(F.when(crowded, F.col("block"))).alias("crowded")
    )
    lacks = F.coalesce("records", F.lit(0)) < F.col("written")
    odd = held.join(written, "producer", "full_outer").where(F.col("crowded").isNotNull() | lacks).persist()
    first = F.min(F.when(F.col("crowded").isNotNull(), F.struct("producer", "crowded"))).alias("twice")
    (told,) = odd.agg(F.count(F.lit(1)).alias("producers"), first).collect()
    if (twice := told["twice"]) is not None:
        _refuse_rows(evidence.need("ledger").where(block("seq") == twice["crowded"]), twice["producer"])
    if not told["producers"]:
        return {}
    # Between blocks their first and last rows tell, and the number of rows written, which ends a producer's.
    ends = odd.select("producer", F.col("written").alias("first_seq"))
    bounds = by_block.join(odd.select("producer"), "producer", "semi").unionByName(
        ends, allowMissingColumns=True
    )
    ended = F.lag("last_seq").over(Window.partitionBy("producer").orderBy(F.asc_nulls_last("block")))
    between = bounds.select(
        "producer",
        F.coalesce(ended + 1, F.lit(0).cast("long")).alias("seq"),
        F.col("first_seq").alias("until"),
    )
    # Within, the rows of those that lack some are sorted, each block by itself.
    torn = by_block.where(F.col("records") <= F.col("last_seq") - F.col("first_seq"))
    some = kept(torn.join(odd, "producer", "semi").select("producer", "block"), ["producer"])
    before = F.lag("seq").over(Window.partitionBy("producer", block("seq")).orderBy("seq"))
    inside = in_blocks(evidence.need("ledger"), some, "seq").select(
        "producer", (before + 1).alias("seq"), F.col("seq").alias("until")
    )
    found = (
        inside.unionByName(between)
        .where("seq < until")
        .select(
            F.lit("unledgered").alias("kind"),
            "producer",
            "seq",
            (F.col("until") - 1).alias("until_seq"),
            (F.col("until") - F.col("seq")).alias("_times"),
        )
    )
    return tally(found, ["producer", "seq"])


def refuse_twice(evidence: Evidence, rows: Anomaly | None, places: Anomaly | None) -> None:
    """Refuse a ledger that holds a record twice, and records of which two lie in one place.

    Raises:
        EvidenceError: naming the record and the files that hold it.
    """
    if rows is not None:
        one = rows.examples[0]
        _refuse_rows(evidence.need("ledger").where(F.col("seq") == one["seq"]), one["producer"])
    if places is not None:
        one = places.examples[0]
        at = {name: one[name] for name in ("topic", "partition", "offset")}
        records = of_run(evidence.need("records"), evidence.run)
        same = reduce(Column.__and__, (F.col(name) == value for name, value in at.items()))
        raise EvidenceError(
            f"{_files(records.where(same))}: {at['topic']}-{at['partition']} offset {at['offset']} is there "
            "twice; were the topics read twice, or two runs mixed? leave the files of one there"
        )


def _refuse_rows(ledger: DataFrame, producer: int) -> None:
    mine = ledger.where(F.col("producer") == producer)
    twice = mine.groupBy("seq").agg(F.count(F.lit(1)).alias("rows")).where("rows > 1")
    first = twice.agg(F.min("seq")).first()
    assert first is not None
    raise EvidenceError(
        f"{_files(mine.where(F.col('seq') == first[0]))}: seq {first[0]} of producer {producer} is in the "
        "ledger twice; do its files come from two runs? leave one run's files there"
    )


def _files(rows: DataFrame) -> str:
    found = rows.select(F.input_file_name().alias("file")).distinct().orderBy("file").limit(3).collect()
    return " and ".join(shown(row["file"]) for row in found if row["file"]) or "ledger"
