"""Evidence of a few rows that a reader can check by eye: times in seconds after the run's begin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kedge.evidence.run import Run
from spark_checks.engine.readers import Evidence
from spark_checks.engine.spark_types import TABLES, local_rows

Row = dict[str, Any]
TOPIC, GROUP = "t", "g"
#: A scan as Spark draws it: its counters, and where it read.
_SCAN: Final = re.compile(r'label="([^"]*Scan parquet[^"]*)"[^\n]*?tooltip="([^\n]*)"')
_ROWS: Final = re.compile(r"number of output rows: ([\d,]+)")
_TABLE: Final = re.compile(r"Location: \w+ ?(?:\(\d+ paths?\))?\[[^\]\s]*/(\w+)[\],]")


def us(seconds: float) -> int:
    """Microseconds since the epoch of a time in the run, which begins at 1,000 s."""
    return int((1_000 + seconds) * 1_000_000)


def run(**changes: Any) -> Run:
    """One topic of two partitions, one producer, one group, ten seconds of which the first is warm-up."""
    topic = {
        "cluster": "leaf",
        "topic": TOPIC,
        "partitions": 2,
        "start_offsets": {"0": 0, "1": 0},
        "end_offsets": {"0": 1000, "1": 1000},
    }
    document: Row = {
        "run_id": "r",
        "started_us": us(0),
        "ended_us": us(11),
        "warm_up_us": 1_000_000,
        "measured_until_us": us(10),
        "topics": [topic | changes.pop("topic", {})],
        "producers": {"0": {"via": "kafka", "topic": TOPIC}},
        "groups": {GROUP: {"via": "kafka", "topics": [TOPIC]}},
    }
    return Run.model_validate(document | changes)


def sent(seq: int, **changes: Any) -> Row:
    """A ledger row: acknowledged in partition 0 at the offset that equals its seq, half a second after."""
    return {
        "producer": 0,
        "seq": seq,
        "topic": TOPIC,
        "partition": 0,
        "offset": seq,
        "crc": 100 + seq,
        "bytes": 100,
        "intended_us": us(seq),
        "sent_us": us(seq),
        "acked_us": us(seq + 0.5),
        "outcome": "acked",
        "error": None,
        "via": "kafka",
        "instance": None,
    } | changes


def unsure(seq: int, outcome: str = "unknown") -> Row:
    """A ledger row without an acknowledgement."""
    return sent(seq, outcome=outcome, partition=None, offset=None, acked_us=None)


def held(seq: int, **changes: Any) -> Row:
    """A record in the topic, where ``sent`` says that it was acknowledged."""
    return {
        "cluster": "leaf",
        "topic": TOPIC,
        "partition": 0,
        "offset": seq,
        "timestamp_us": us(seq + 0.25),
        "timestamp_type": "append",
        "producer": 0,
        "seq": seq,
        "intended_us": us(seq),
        "crc": 100 + seq,
        "crc_ok": True,
        "key_ok": True,
        "key_hash": 42,
        "value_hash": 100 + seq,
        "headers_hash": 42,
        "bytes": 100,
    } | changes


def got(seq: int, **changes: Any) -> Row:
    """A delivery of that record to the group's one consumer, a second after its intended time."""
    return {
        "group": GROUP,
        "consumer": "c",
        "topic": TOPIC,
        "partition": 0,
        "offset": seq,
        "producer": 0,
        "seq": seq,
        "intended_us": us(seq),
        "received_us": us(seq + 1),
        "via": "kafka",
    } | changes


def frame(spark: SparkSession, table: str, rows: Iterable[Row]) -> DataFrame:
    """Rows of an evidence table; a column that may be null may be left out."""
    schema = TABLES[table]
    return local_rows(
        spark, [tuple(row.get(f.name) if f.nullable else row[f.name] for f in schema) for row in rows], schema
    ).coalesce(1)


def evidence(spark: SparkSession, about: Run | None = None, **tables: Iterable[Row]) -> Evidence:
    """Evidence of the given tables, the others absent."""
    frames = {name: frame(spark, name, tables[name]) if name in tables else None for name in TABLES}
    return Evidence("memory", about or run(), frames)


@dataclass
class Counted:
    """A number that is known at the end."""

    value: int = 0


@contextmanager
def shuffled(spark: SparkSession) -> Iterator[Counted]:
    """Count the rows that this thread's jobs shuffle meanwhile, by Spark's own counters."""
    context, group, found = spark.sparkContext, str(uuid4()), Counted()
    context.setJobGroup(group, group)
    yield found
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs if job for stage in job.stageIds}
    found.value = sum(store.lastStageAttempt(stage).shuffleWriteRecords() for stage in stages)


@contextmanager
def scanned(spark: SparkSession) -> Iterator[Counter[str]]:
    """Count the rows that Spark reads meanwhile from the files of each table, by its own counters."""
    store, found = spark._jsparkSession.sharedState().statusStore(), Counter[str]()

    def executions() -> dict[int, Any]:
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        each = store.executionsList().iterator()
        listed = iter(lambda: each.next() if each.hasNext() else None, None)
        return {one.executionId(): one for one in listed}

    before = executions()
    yield found
    for number in executions().keys() - before.keys():
        # What is kept is in the plan of whoever reads it; rows are counted where they were read from files.
        drawn = store.planGraph(number).makeDotFile(store.executionMetrics(number))
        for label, description in _SCAN.findall(drawn):
            rows, table = _ROWS.search(label), _TABLE.search(description)
            if rows and table:
                found[table[1]] += int(rows[1].replace(",", ""))


@contextmanager
def collecting(spark: SparkSession, most: str, broadcast: str = "10m") -> Iterator[list[int]]:
    """Refuse jobs meanwhile that bring more than this to the driver; give the rows that Python gets each time.

    Spark also collects what it broadcasts by its own choice, where it reckons with less than ``broadcast``.
    """
    conf, rows = spark.sparkContext._jsc.sc().conf(), list[int]()
    before = conf.get("spark.driver.maxResultSize", "1g")
    frames: Any = type(spark.range(1))

    def counted(name: str) -> Any:
        ask = getattr(frames, name)

        def asked(self: DataFrame) -> Any:
            found = ask(self)
            rows.append(len(found))
            return found

        return asked

    try:
        conf.set("spark.driver.maxResultSize", most)
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcast)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("collect", "toArrow", "toPandas"):
                patch.setattr(frames, name, counted(name))
            yield rows
    finally:
        conf.set("spark.driver.maxResultSize", before)
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def many(spark: SparkSession, table: str, row: Row, count: int, **columns: str) -> DataFrame:
    """Rows as this one, but for columns that are an expression of their number ``n``.

    Not a product of the row and its numbers: Spark would hold all rows of it in memory at once.
    """
    made = (
        (F.expr(columns[field.name]) if field.name in columns else F.lit(row.get(field.name)))
        .cast(field.dataType)
        .alias(field.name)
        for field in TABLES[table]
    )
    return spark.range(0, count, 1, 2).toDF("n").select(*made)
