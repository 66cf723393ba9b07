"""One measurement in a process of its own: ``python -m lab.bench.audit.one HOW FOLDER`` prints a JSON object.

HOW is ``audit`` (the delivery check of the audit: every kind of anomaly between producer and topic),
``duckdb`` (anti-join of acknowledged records without an intact copy, search for duplicates), ``spark`` (the
same two questions as joins written directly in Spark), ``whole`` (the audit with every check) or ``every``
(twelve questions of the checks, of DuckDB one after the other). ``seconds`` counts from the evidence to the
answer; ``start_s`` is what a tool needs before.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from spark_checks.delivery import check as delivery
from spark_checks.engine import session
from spark_checks.engine.readers import open_evidence
from spark_checks.job import audit
from spark_checks.results import Result

CORES = 2
MASTER = f"local[{CORES}]"
DRIVER_MEMORY = "2g"
#: As much as the whole audit may take.
DUCKDB_MEMORY = "8GB"

LOST = """select seq from ledger anti join (select producer, seq from records where crc_ok)
    using (producer, seq) where outcome = 'acked' order by 1"""
DUPLICATED = "select seq from records where crc_ok group by producer, seq having count(*) > 1 order by 1"
#: Records that nobody sent, rows that are there twice, falls of sequence numbers along offsets; rates by
#: second; latencies until the acknowledgement (whole, and by second) and until the topic; the longest time
#: without an acknowledgement; and the broker's clock between sending and acknowledgement.
OTHERS = (
    "select count(*) from records anti join ledger using (producer, seq) where crc_ok",
    "select count(*) from (select 1 from ledger group by producer, seq having count(*) > 1)",
    """select count(*) from (select 1 from records group by cluster, topic, "partition", "offset"
        having count(*) > 1)""",
    """select count(*) from (select seq < max(seq) over (partition by topic, "partition", producer
        order by "offset" rows between unbounded preceding and 1 preceding) as fell from records where crc_ok)
        where fell""",
    """select via, topic, "partition", instance, outcome, intended_us // 1000000, acked_us // 1000000,
        count(*), sum(bytes) from ledger group by all""",
    """select via, quantile_disc(acked_us - intended_us, [0.5, 0.9, 0.99, 0.999, 1.0]) from ledger
        where outcome = 'acked' group by via""",
    """select via, intended_us // 1000000, quantile_disc(acked_us - intended_us, [0.5, 0.99]) from ledger
        where outcome = 'acked' group by all""",
    """select producer, quantile_disc(timestamp_us - intended_us, [0.5, 0.9, 0.99, 0.999, 1.0]) from records
        where crc_ok group by producer""",
    """select via, topic, "partition", max(acked_us - before) from (select via, topic, "partition", acked_us,
        lag(acked_us) over (partition by via, topic, "partition" order by acked_us) as before from ledger
        where outcome = 'acked') group by all""",
    """select topic, "partition", intended_us // 1000000, avg(timestamp_us) from records where crc_ok
        group by all""",
)

#: Sequence numbers by kind of anomaly.
Found = dict[str, list[int]]


def by_audit(folder: Path) -> dict[str, Any]:
    """Return the answer of the delivery check, which is told where to look and nothing else."""

    begin = time.perf_counter()
    spark = session.start(MASTER, DRIVER_MEMORY)
    started = time.perf_counter()
    found = _examples(delivery.check(open_evidence(spark, str(folder)), Levels()))
    return {"start_s": started - begin, "seconds": time.perf_counter() - started, "found": found}


def by_every_check(folder: Path) -> dict[str, Any]:
    """Return what the whole audit says of delivery, with every check beside it, as the command runs it."""
    begin = time.perf_counter()
    spark = session.start(MASTER, DRIVER_MEMORY)
    started = time.perf_counter()
    found = _examples(audit(spark, str(folder), Levels()).results[0])
    seconds = time.perf_counter() - started
    return {"start_s": started - begin, "seconds": seconds, "found": found, **_counters(spark)}


def _counters(spark: SparkSession) -> dict[str, int]:
    """Return what Spark's tasks read of the evidence and shuffled, in bytes, by Spark's own counters."""
    everywhere = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    found = {"read_bytes": 0, "shuffled_bytes": 0}
    for number in range(everywhere.size()):
        found["read_bytes"] += everywhere.apply(number).totalInputBytes()
        found["shuffled_bytes"] += everywhere.apply(number).totalShuffleWrite()
    return found


def by_duckdb(folder: Path) -> dict[str, Any]:
    """Return what an exact anti-join and a search for duplicates find."""
    return _asked(folder, ())


def by_duckdb_twelve(folder: Path) -> dict[str, Any]:
    """Return the same, and ask ten more questions of the checks beside it."""
    return _asked(folder, OTHERS)


def _asked(folder: Path, others: Sequence[str]) -> dict[str, Any]:
    begin = time.perf_counter()
    connection = duckdb.connect(config={"threads": CORES, "memory_limit": DUCKDB_MEMORY})
    connection.execute("set preserve_insertion_order = false")
    connection.execute(f"set temp_directory = '{folder}/spilled'")
    for table in ("ledger", "records"):
        connection.execute(f"create view {table} as from read_parquet('{folder}/{table}/*.parquet')")
    started = time.perf_counter()
    lost, duplicated = (connection.execute(question).fetchall() for question in (LOST, DUPLICATED))
    for question in others:
        connection.execute(question).fetchall()
    seconds = time.perf_counter() - started
    found = {"lost": [row[0] for row in lost], "duplicated": [row[0] for row in duplicated]}
    return {"start_s": started - begin, "seconds": seconds, "found": found}


def by_spark(folder: Path) -> dict[str, Any]:
    """Return what the same two questions find when they are asked in Spark as they stand."""

    def answer(spark: SparkSession) -> Found:
        ledger = spark.read.parquet(str(folder / "ledger")).where("outcome = 'acked'")
        records = spark.read.parquet(str(folder / "records")).where("crc_ok").select("producer", "seq")
        who = ["producer", "seq"]
        lost = ledger.join(records, who, "anti").select("seq").orderBy("seq").collect()
        twice = records.groupBy(*who).count().where("count > 1").orderBy("seq").collect()
        return {"lost": [row["seq"] for row in lost], "duplicated": [row["seq"] for row in twice]}

    return _timed(answer)


def _examples(result: Result) -> Found:
    return {kind: sorted(one["seq"] for one in a.examples) for kind, a in result.anomalies.items()}


def _timed(answer: Callable[[SparkSession], Found]) -> dict[str, Any]:
    """Start Spark, and return the answer with how long both took."""
    begin = time.perf_counter()
    spark = session.start(MASTER, DRIVER_MEMORY)
    started = time.perf_counter()
    found = answer(spark)
    seconds = time.perf_counter() - started
    spark.stop()
    return {"start_s": started - begin, "seconds": seconds, "found": found}


WAYS = {
    "audit": by_audit,
    "duckdb": by_duckdb,
    "every": by_duckdb_twelve,
    "spark": by_spark,
    "whole": by_every_check,
}

if __name__ == "__main__":
    print(json.dumps(WAYS[sys.argv[1]](Path(sys.argv[2]))))
