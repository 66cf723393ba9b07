"""Partitions: rows within the windows count, medians and spreads follow, targets are held against them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from kedge.evidence.writing import rows_to_columns, write_table
from spark_checks.checks.partition_rates import check
from spark_checks.engine import session
from spark_checks.results import Result
from tests.spark.frames import Row, evidence, run, sent, us
from verify.measure.summary import summarize

BYTES = 1_000_000  # so that a record is a megabyte, and a record a second 1 MB/s


def a_round(topic: str, partitions: int, phase: str, begin: float, **changes: Any) -> Row:
    return {
        "topic": topic,
        "partitions": partitions,
        "repetition": 1,
        "phase": phase,
        "acks": "all",
        "from_us": us(begin),
        "until_us": us(begin + 2),
        "client_busy": 0.5,
        "loads": [
            {"host": "b1", "role": "broker", "machine": "m", "cpu": 0.2, "disk": 0.1, "network": None}
            | changes.pop("load", {})
        ],
    } | changes


def ledger(topic: str, count: int, begin: float, **changes: Any) -> list[Row]:
    """Records that are acknowledged one after the other in the two seconds from ``begin`` on."""
    rows = []
    for n in range(count):
        at = us(begin + 2 * n / count)
        times = {"intended_us": at, "sent_us": at, "acked_us": at}
        rows.append(sent(n, topic=topic, bytes=BYTES, **times) | changes)
    return rows


def delivered(topic: str, count: int, begin: float) -> list[Row]:
    return [
        {
            "group": topic, "consumer": "c", "topic": topic, "partition": 0, "offset": n, "producer": 0,
            "seq": n, "received_us": us(begin + 2 * n / count), "via": "kafka",
        }
        for n in range(count)
    ]  # fmt: skip


ASKED: Row = {
    "cluster": "leaf", "record_bytes": BYTES, "codec": "none", "acks": "all", "replication": 1,
    "clients": 1, "partitions": [1, 2], "repetitions": 1, "targets": [],
}  # fmt: skip


def measured(
    spark: SparkSession, rounds: list[Row], rows: list[Row], got: list[Row], **changes: Any
) -> Result:
    about = run(measurement=ASKED | {"rounds": rounds} | changes)
    return check(evidence(spark, about, ledger=rows, deliveries=got), Levels())


ROUNDS = [a_round("p1", 1, "produce", 0), a_round("p1", 1, "consume", 3)]


def test_only_what_is_acknowledged_within_the_window_counts(spark: SparkSession) -> None:
    late = [row | {"acked_us": us(2.5)} for row in ledger("p1", 5, 0)]
    early = [row | {"acked_us": us(-0.1)} for row in ledger("p1", 5, 0)]
    failed = ledger("p1", 5, 0, outcome="failed", acked_us=None, partition=None, offset=None)
    result = measured(spark, ROUNDS, ledger("p1", 10, 0) + late + early + failed, delivered("p1", 20, 3))
    assert result.measured["production"]["one_mb_per_s"] == 5.0
    assert result.measured["consumption"]["one_mb_per_s"] == 10.0
    assert result.anomalies["not_acknowledged"].count == 5
    assert result.verdict == "measured"


def test_the_median_of_the_repetitions_counts_and_their_spread_is_said(spark: SparkSession) -> None:
    rounds, rows, got = [], [], []
    for number, count in enumerate((8, 10, 12)):
        topic, begin = f"p1-{number}", 10.0 * number
        rounds += [a_round(topic, 1, "produce", begin), a_round(topic, 1, "consume", begin + 3)]
        rows += ledger(topic, count, begin)
        got += delivered(topic, 20, begin + 3)
    production = measured(spark, rounds, rows, got).measured["production"]
    assert (production["one_mb_per_s"], production["spread"], production["repetitions"]) == (5.0, 0.4, 3)


def test_a_target_needs_the_larger_quotient_times_growth(spark: SparkSession) -> None:
    targets = [{"topic": "orders", "target_mb_per_s": 12.0, "growth": 1.5, "partitions": 2}]
    result = measured(spark, ROUNDS, ledger("p1", 10, 0), delivered("p1", 20, 3), targets=targets)
    assert result.measured["targets"][0]["needed_partitions"] == 4  # max(12 / 5, 12 / 10) x 1.5 = 3.6
    assert "give topic orders 4 partitions, not 2" in [one.advice for one in result.recommendations]
    (rates,) = [one.value for one in result.recommendations if one.variable == "kafka_partition_rates"]
    assert (rates[0]["production_mb_per_s"], rates[0]["consumption_mb_per_s"]) == (5.0, 10.0)


@pytest.mark.parametrize(
    ("cpu", "verdict", "said"),
    [
        (0.95, "fail", "no number of partitions reaches 50 MB/s of production"),
        (0.2, "fail", "stops at 5 MB/s with 1"),
    ],
)
def test_a_target_above_the_end_of_the_curve_fails(
    spark: SparkSession, cpu: float, verdict: str, said: str
) -> None:
    rounds = [*ROUNDS, a_round("p2", 2, "produce", 10, load={"cpu": cpu}), a_round("p2", 2, "consume", 13)]
    rows = ledger("p1", 10, 0) + ledger("p2", 10, 10)
    got = delivered("p1", 20, 3) + delivered("p2", 40, 13)
    targets = [{"topic": "orders", "target_mb_per_s": 50.0, "growth": 1.0, "partitions": None}]
    result = measured(spark, rounds, rows, got, targets=targets)
    assert result.verdict == verdict
    assert said in result.because
    assert result.measured["consumption"]["stops_at"] is None


def test_repetitions_that_lie_far_apart_are_unknown_and_recommend_nothing(spark: SparkSession) -> None:
    rounds = [*ROUNDS, a_round("p1-2", 1, "produce", 10), a_round("p1-2", 1, "consume", 13)]
    rows, got = (
        ledger("p1", 10, 0) + ledger("p1-2", 30, 10),
        delivered("p1", 20, 3) + delivered("p1-2", 20, 13),
    )
    result = measured(spark, rounds, rows, got)
    assert result.verdict == "unknown"
    assert "100% apart" in result.because
    assert result.recommendations == ()


def test_without_a_measurement_nothing_is_known(spark: SparkSession) -> None:
    assert check(evidence(spark, run(), ledger=[sent(0)]), Levels()).verdict == "unknown"


def test_a_leader_alone_that_is_faster_names_replication(spark: SparkSession) -> None:
    rounds = [*ROUNDS, a_round("alone", 1, "produce", 10, acks="1")]
    rows = ledger("p1", 10, 0) + ledger("alone", 20, 10)
    production = measured(spark, rounds, rows, delivered("p1", 20, 3)).measured["production"]
    assert production["limited_by"] == "replication (acks=1 is 2.00 times as fast)"
    assert production["one_mb_per_s"] == 5.0


def test_a_measurement_is_summed_up_in_a_report(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "start", lambda *_, **__: spark)
    monkeypatch.setattr(session, "stop", lambda _: None)
    about = run(measurement=ASKED | {"rounds": ROUNDS})
    folder = tmp_path / "evidence"
    for table, rows in (("ledger", ledger("p1", 10, 0)), ("deliveries", delivered("p1", 20, 3))):
        write_table(folder, table, "made", rows_to_columns(table, rows))
    (folder / "run.json").write_text(about.model_dump_json(by_alias=True))
    result = summarize(tmp_path)
    assert result.measured["consumption"]["one_mb_per_s"] == 10.0
    assert (tmp_path / "report" / "report.html").exists()
