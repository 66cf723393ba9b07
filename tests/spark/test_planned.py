"""Settings against the plan, partitions against their target, and brokers' clocks against the records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from spark_checks.checks import broker_clocks, latency, partitions, settings, throughput
from spark_checks.engine.spark_types import local_rows
from tests.spark.frames import Row, evidence, held, run, sent, us

pytestmark = pytest.mark.spark


def planned(key: str, value: str, running: str | None, file: str = "a.properties") -> Row:
    who = {"host": "h", "service": "kafka_rest", "instance": "8082", "file": file}
    return who | {"key": key, "planned": value, "running": running}


def test_a_setting_that_is_not_as_planned_fails_and_is_named(spark: SparkSession) -> None:
    rows = [
        planned("acks", "all", "all"),
        planned("linger.ms", "5", "0"),
        planned("ssl", "True", "true"),
        planned("size", "1000", "1e3"),
        planned("gone", "1", None),
    ]
    result = settings.check(evidence(spark, ledger=[], settings=rows), Levels())
    assert result.verdict == "fail"
    assert [one["key"] for one in result.anomalies["different"].examples] == ["gone", "linger.ms"]
    assert "gone at kafka_rest 8082 on h: planned '1', runs with nothing" in result.because


def test_a_file_that_nobody_could_read_is_unknown(spark: SparkSession) -> None:
    rows = [planned("acks", "all", "all"), planned("x", "1", None, "b.properties")]
    result = settings.check(evidence(spark, ledger=[], settings=rows), Levels())
    assert (result.verdict, result.measured["unread"], result.measured["different"]) == ("unknown", 1, 0)


def test_without_settings_nothing_is_known_of_them(spark: SparkSession) -> None:
    assert settings.check(evidence(spark, ledger=[]), Levels()).verdict == "unknown"


def at_rate(per_s: int, **changes: Any) -> list[Row]:
    """Ledger rows of ten seconds, one after the other in two partitions, acknowledged after 0.1 s."""
    return [
        sent(n, intended_us=us(n / per_s), sent_us=us(n / per_s), acked_us=us(n / per_s + 0.1))
        | {"partition": n % 2, "offset": n // 2}
        | changes
        for n in range(10 * per_s)
    ]


@pytest.mark.parametrize(("target", "needed", "verdict"), [(20, 2, "pass"), (50, 5, "fail")])
def test_partitions_needed_follow_from_what_one_carried(
    spark: SparkSession, target: float, needed: int, verdict: str
) -> None:
    about = run(producers={"0": {"via": "kafka", "topic": "t", "records_per_s": target}})
    result = partitions.check(evidence(spark, about, ledger=at_rate(20)), Levels())
    figures = result.measured["t"]
    assert (figures["partition_production_records_per_s"], figures["needed_partitions"]) == (10, needed)
    assert (result.verdict, bool(result.recommendations)) == (verdict, verdict == "fail")


def test_a_partition_that_gets_nothing_is_named_and_skew_is_judged(spark: SparkSession) -> None:
    level = Levels.model_validate({"partitions": {"max_skew": 1.5}})
    result = partitions.check(evidence(spark, ledger=at_rate(20, partition=1)), level)
    assert result.verdict == "fail"
    assert result.measured["t"]["skew"] == 2
    assert [one["partition"] for one in result.anomalies["starved"].examples] == [0]


def test_a_clock_that_is_years_ahead_is_a_sum_beyond_the_whole_numbers_of_a_float(
    spark: SparkSession,
) -> None:
    """Ten days at 10,000 records a second of a partition come to as much."""
    four_years_us = 4 * 365 * 86_400_000_000
    sums = [(10_000 * four_years_us + 1, 10_000), (None, 3)]
    rows = local_rows(spark, sums, "at long, records long")
    means = rows.select(broker_clocks._mean("at")).collect()
    assert [mean for (mean,) in means] == [float(four_years_us), None]


@pytest.mark.parametrize(("level", "verdict"), [(20.0, "pass"), (20.1, "unknown"), (None, "measured")])
def test_the_rate_is_that_of_the_seconds_of_the_window(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, level: float | None, verdict: str
) -> None:
    counted = zip((-1, 0, 1, 2), (1000, 15, 25, 7000), (1000, 300, 500, 7000), strict=True)
    ledger = local_rows(
        spark,
        [("kafka", None, "acked", at, at, count, volume) for at, count, volume in counted],
        "via string, instance string, outcome string, acked_s long, intended_s long, records long, bytes long",
    )
    monkeypatch.setattr(throughput, "ledger_by", lambda *_: ledger)
    monkeypatch.setattr(throughput, "read_restarts", lambda *_: [])
    run = SimpleNamespace(measured_s=2.5, measured_from_us=0, producers={})
    found: Any = SimpleNamespace(run=run, rows=lambda _: None)
    levels = Levels.model_validate({"throughput": {"kafka": {"records_per_s": level}}})
    result = throughput.check(found, levels)
    assert result.verdict == verdict  # no more than 20 were offered
    measured = result.measured["kafka"]
    assert (measured["mean_records_per_s"], measured["offered_records_per_s"]) == (20.0, 20.0)
    assert (measured["mean_bytes_per_s"], measured["records"]) == (400.0, 40)


@pytest.mark.parametrize(("shift", "found"), [(0, []), (2, [1.9, 1.9]), (-2, [-2.0, -2.0])])
def test_a_brokers_clock_that_is_two_seconds_off_is_measured_by_the_records(
    spark: SparkSession, shift: float, found: list[float]
) -> None:
    ledger = at_rate(20)
    records = [
        held(
            row["seq"],
            intended_us=row["intended_us"],
            timestamp_us=row["sent_us"] + 50_000 + int(shift * 1e6),
        )
        | {"partition": row["partition"], "offset": row["offset"]}
        for row in ledger
    ]
    tables = evidence(spark, ledger=ledger, records=records)
    wrong = broker_clocks.shifted(tables)
    assert [one["shift_at_least_ms"] / 1000 for one in wrong] == pytest.approx(found, abs=0.06)
    if found:
        asked = Levels.model_validate({"latency": {"kafka": {"append_p99_ms": 3000}}})
        result = latency.check(tables, asked)
        assert (result.verdict, result.anomalies["clock_shifted"].count) == ("unknown", 2)
