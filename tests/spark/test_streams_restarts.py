"""What a restart of a Streams application costs: by its outputs, its group and its own samples."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from kedge.evidence.run import Run
from spark_checks.rebalance import check as rebalance
from tests.spark.frames import TOPIC, Row, evidence, held, run, sent, us

pytestmark = pytest.mark.spark

PLACE = {"cluster": "leaf", "topic": TOPIC}
WHO = {"host": "st1", "service": "streams_app", "instance": "joins-0"}
LEDGER = [sent(n, intended_us=us(n / 20), sent_us=us(n / 20), acked_us=us(n / 20 + 0.01)) for n in range(200)]
ACTIONS: list[Row] = [
    WHO | {"action": action, "started_us": us(4), "ended_us": us(until), "ok": True}
    for action, until in (("kill", 4), ("ready", 6))
]


def fed() -> Run:
    topic = PLACE | {"partitions": 2, "start_offsets": {"0": 0}, "end_offsets": {"0": 999}}
    app = {"name": "joins", "input": PLACE, "output": PLACE | {"topic": "out"}, "per_record": 1}
    return run(topics=[topic, topic | {"topic": "out"}], applications=[app], groups={})


def records(timestamp_type: str) -> list[Row]:
    """Each record of the input, and its output 0.1 s later, or at 6.5 s where it fell into the restart."""
    rows = []
    for row in LEDGER:
        at = row["intended_us"]
        rows.append(held(row["seq"], timestamp_us=at))
        out_us = us(6.5) if us(3.9) < at < us(6.4) else at + 100_000
        rows.append(
            held(row["seq"], topic="out", partition=1, timestamp_us=out_us, timestamp_type=timestamp_type)
        )
    return rows


def told(at: float, restoring: int) -> Row:
    empty = dict.fromkeys(("heap_bytes", "stores", "block_cache_bytes"))
    return WHO | empty | {"at_us": us(at), "rss_bytes": 1, "restoring_records": restoring}


def checked(spark: SparkSession, timestamp_type: str = "append", **level: Any) -> Any:
    states = [
        {"group": "joins", "at_us": us(n / 10), "state": state, "members": 2, "assigned": 2}
        for n in range(100)
        for state in ["PreparingRebalance" if 50 <= n < 60 else "Stable"]
    ]
    owned = [("assigned", 0.0), ("revoked", 5.0), ("assigned", 6.0)]
    assignments = [
        {"group": "joins", "consumer": "c", "topic": TOPIC, "partition": 0, "event": event, "at_us": us(at)}
        for event, at in owned
    ]
    tables = evidence(
        spark,
        fed(),
        ledger=LEDGER,
        records=records(timestamp_type),
        group_states=states,
        assignments=assignments,
        actions=ACTIONS,
        rocksdb=[told(3.5, 0), told(4.5, 900), told(5.5, 300), told(6.5, 0)],
    )
    return rebalance.check(tables, Levels.model_validate({"rebalance": level}))


def test_a_stall_is_read_from_the_outputs_by_partition_of_the_input(spark: SparkSession) -> None:
    result = checked(spark, consume_stall_s=2)
    assert result.verdict == "fail"
    assert result.because.startswith("delivery gap 2.45 s at st1 joins-0, the level is 2 s")
    (restart,) = result.measured["by_restart"]
    assert restart["by"]["joins"]["by_partition"] == [{"partition": 0, "stall_s": 2.45, "ownerless_s": 1.0}]
    assert restart["by"]["joins"]["lag_highest_records"] == pytest.approx(50, abs=3)


def test_the_groups_time_and_the_restore_stand_beside_it(spark: SparkSession) -> None:
    result = checked(spark, not_stable_s=2)
    assert result.verdict == "pass"
    (restart,) = result.measured["by_restart"]
    assert restart["not_stable_s"] == pytest.approx(1.0, abs=0.001)
    assert (restart["took_s"], restart["restore_s"], restart["restore_records"]) == (2.0, 2.0, 900)


def test_without_the_brokers_times_of_the_outputs_a_stall_is_unknown(spark: SparkSession) -> None:
    result = checked(spark, "create", consume_stall_s=2)
    assert result.verdict == "unknown"
    assert "delivery gap was not measured" in result.because
