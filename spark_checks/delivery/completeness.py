"""Whether the evidence of the first hop is whole and one run's, before anything is concluded from it."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evidence.errors import EvidenceError
from evidence.run import Run
from spark_checks.engine.anomalies import block, tally
from spark_checks.engine.facts import facts, of_run
from spark_checks.engine.one_pass import Folded
from spark_checks.engine.readers import Evidence
from spark_checks.engine.sequences import SCHEMA, folder
from spark_checks.results import Anomaly


def claimed(run: Run) -> dict[int, int]:
    """Return how many rows each generator says that it wrote, where it ended properly and says so."""
    known = {number: producer.records for number, producer in run.producers.items() if run.complete}
    return {number: records for number, records in known.items() if records is not None}


def unledgered(evidence: Evidence) -> dict[str, Anomaly]:
    """Find what the ledger lacks of the rows that its generators wrote.

    Returns:
        Anomaly ``unledgered``, with an example for each hole (producer, seq to until_seq).

    Raises:
        EvidenceError: when the ledger holds one record twice.
    """
    wanted = claimed(evidence.run)
    rows: dict[int, int] = defaultdict(int)
    for (producer, number), (count, least, most) in _by_block(facts(evidence)).items():
        rows[producer] += count
        if count > most - least + 1:
            _refuse_rows(evidence.need("ledger").where(block("seq") == number), producer)
    short = {producer: end for producer, end in wanted.items() if rows.get(producer, 0) < end}
    if not short:
        return {}
    ledger = evidence.need("ledger")
    ends = ledger.sparkSession.createDataFrame(list(short.items()), "code long, end long")
    mine = ledger.where(F.col("producer").isin(list(short))).select(
        F.col("producer").cast("long").alias("code"), "seq", F.col("seq").alias("value")
    )
    # Few rows are left of each Arrow batch: those where the numbers jump.
    runs = mine.mapInArrow(folder(consecutive=True), SCHEMA).select("code", "first_value", "last_value")
    last = ends.select("code", F.col("end").alias("first_value"), F.col("end").alias("last_value"))
    window = Window.partitionBy("code").orderBy("first_value")
    found = (
        runs.unionByName(last)
        .withColumn("seq", F.coalesce(F.lag("last_value").over(window), F.lit(-1)) + 1)
        .where("seq < first_value")
        .select(
            F.lit("unledgered").alias("kind"),
            F.col("code").cast("int").alias("producer"),
            "seq",
            (F.col("first_value") - 1).alias("until_seq"),
            (F.col("first_value") - F.col("seq")).alias("_times"),
        )
    )
    return tally(found, ["producer", "seq"])


def _by_block(parts: Folded) -> dict[tuple[int, int], tuple[int, int, int]]:
    """Return rows, first and last sequence number of each (producer, block) of the ledger, in their order."""
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    for row in parts.rows("sent"):
        key = row["producer"], row["block"]
        rows, first, last = found.get(key, (0, row["first_seq"], row["last_seq"]))
        found[key] = rows + row["rows"], min(first, row["first_seq"]), max(last, row["last_seq"])
    return dict(sorted(found.items()))


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
            "twice; were the topics landed twice, or two runs mixed? leave one landing's files there"
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
    return " and ".join(row["file"].removeprefix("file://") for row in found if row["file"]) or "ledger"
