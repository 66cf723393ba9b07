"""Whether the evidence of the first hop is whole and one run's, before anything is concluded from it."""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kedge.evidence.errors import EvidenceError
from kedge.evidence.run import Run
from spark_checks.engine.anomalies import tally
from spark_checks.engine.blocks import block, in_blocks
from spark_checks.engine.facts import ledger_blocks, of_run
from spark_checks.engine.files import shown
from spark_checks.engine.readers import Evidence
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
    ledger, blocks = evidence.need("ledger"), dict[int, list[dict[str, Any]]]()
    for one in _by_block(evidence):
        blocks.setdefault(one["producer"], []).append(one)
        if one["records"] > one["last_seq"] - one["first_seq"] + 1:
            _refuse_rows(ledger.where(block("seq") == one["block"]), one["producer"])
    holes: list[tuple[int, int, int]] = []
    torn: list[tuple[int, int]] = []
    for who, end in claimed(evidence.run).items():
        if sum(one["records"] for one in blocks.get(who, [])) >= end:
            continue
        upto = 0
        for one in blocks.get(who, []):
            holes.append((who, upto, one["first_seq"]))
            if one["records"] <= one["last_seq"] - one["first_seq"]:
                torn.append((who, one["block"]))
            upto = one["last_seq"] + 1
        holes.append((who, upto, end))
    holes = [hole for hole in holes if hole[1] < hole[2]]
    if not holes and not torn:
        return {}
    # Between blocks their first and last rows tell. Within, the rows of those that lack some are sorted, each
    # block by itself.
    before = F.lag("seq").over(Window.partitionBy("producer", block("seq")).orderBy("seq"))
    inside = in_blocks(ledger, torn, ["producer"], "seq").select(
        "producer", (before + 1).alias("seq"), F.col("seq").alias("until")
    )
    between = ledger.sparkSession.createDataFrame(holes, inside.schema)
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


def _by_block(evidence: Evidence) -> list[dict[str, Any]]:
    """Return records, first_seq and last_seq of each (producer, block) of the ledger, in their order."""
    wanted = [("records", "sum"), ("first_seq", "min"), ("last_seq", "max")]
    found = ledger_blocks(evidence).group_by(["producer", "block"]).aggregate(wanted)
    names = {f"{name}_{how}": name for name, how in wanted}
    found = found.rename_columns([names.get(name, name) for name in found.column_names])
    rows: list[dict[str, Any]] = found.sort_by(
        [("producer", "ascending"), ("block", "ascending")]
    ).to_pylist()
    return rows


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
