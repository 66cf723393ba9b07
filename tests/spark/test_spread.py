"""What instances carry after restarts against before, on rows that can be checked by eye."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from spark_checks.checks import spread
from spark_checks.registry import asked
from spark_checks.results import Result
from tests.spark.frames import GROUP, TOPIC, Row, evidence, run, us

pytestmark = pytest.mark.spark


def about() -> Any:
    return run(
        ended_us=us(21),
        measured_until_us=us(20),
        groups={GROUP: {"via": "rest", "topics": [TOPIC]}},
    )


def home(at: float, consumer: str, instance: str, partitions: int = 1) -> Row:
    return {
        "group": GROUP,
        "consumer": consumer,
        "instance": instance,
        "at_us": us(at),
        "partitions": partitions,
    }


def action(what: str, begin: float, end: float) -> Row:
    row = {"host": "h", "service": "kafka_rest", "instance": "a", "action": what, "ok": True}
    return {**row, "started_us": us(begin), "ended_us": us(end)}


RESTART = [action("stop", 5, 6), action("start", 6, 7), action("ready", 7, 8)]
BEFORE = [home(4, "c0", "a"), home(4, "c1", "a"), home(4, "c2", "b"), home(4, "c3", "b")]


def judged(
    spark: SparkSession, homes: list[Row], percent: float | None = 20, actions: list[Row] = RESTART
) -> Result:
    rows = evidence(spark, about(), homes=homes, actions=actions)
    return spread.check(rows, Levels.model_validate({"spread": {"percent": percent}}))


def test_consumers_that_pile_up_on_one_instance_fail_and_both_are_named(spark: SparkSession) -> None:
    result = judged(spark, [*BEFORE, *(home(19, f"c{n}", "b") for n in range(4))])
    assert result.verdict == "fail"
    assert (result.measured["consumers_percent"], result.measured["partitions_percent"]) == (100, 100)
    assert [(e["instance"], e["consumers_before"], e["consumers"]) for e in
            result.anomalies["piled_up"].examples] == [("a", 2, 0), ("b", 2, 4)]  # fmt: skip
    assert "docs/balancer.md" in result.recommendations[0].advice


def test_consumers_that_are_home_again_pass_though_they_were_away(spark: SparkSession) -> None:
    away = [home(9, f"c{n}", "b") for n in range(4)]
    result = judged(spark, [*BEFORE, *away, *(row | {"at_us": us(19)} for row in BEFORE)])
    assert (result.verdict, result.anomalies) == ("pass", {})


def test_consumers_that_changed_places_leave_each_instance_what_it_carried(spark: SparkSession) -> None:
    swapped = [home(19, "c0", "b"), home(19, "c2", "a"), home(19, "c1", "a"), home(19, "c3", "b")]
    assert judged(spark, [*BEFORE, *swapped]).verdict == "pass"


def test_partitions_that_moved_with_as_many_consumers_count(spark: SparkSession) -> None:
    after = [home(19, "c0", "a", 2), home(19, "c1", "a", 1), home(19, "c2", "b", 1), home(19, "c3", "b", 0)]
    result = judged(spark, [*BEFORE, *after])
    assert (result.measured["consumers_percent"], result.measured["partitions_percent"]) == (0, 50)
    assert result.verdict == "fail"


def test_a_second_without_records_is_no_partition_less(spark: SparkSession) -> None:
    after = [row | {"at_us": us(at), "partitions": int(at == 18)} for at in (18, 19) for row in BEFORE]
    assert judged(spark, [*BEFORE, *after]).verdict == "pass"


def test_without_a_level_it_is_measured_and_still_named(spark: SparkSession) -> None:
    result = judged(spark, [*BEFORE, *(home(19, f"c{n}", "b") for n in range(4))], percent=None)
    assert result.verdict == "measured"
    assert result.anomalies["piled_up"].count == 2


@pytest.mark.parametrize(
    ("homes", "actions", "why"),
    [
        (BEFORE, RESTART, "after the last restart"),
        ([home(19, "c0", "a")], RESTART, "before the first restart"),
        (BEFORE, [], "no instance was restarted"),
        (BEFORE, RESTART[:1], "never came back"),
    ],
)
def test_without_evidence_nothing_is_known(
    spark: SparkSession, homes: list[Row], actions: list[Row], why: str
) -> None:
    result = judged(spark, homes, actions=actions)
    assert result.verdict == "unknown"
    assert why in result.because


@pytest.mark.parametrize("level", [20, None])
def test_only_runs_whose_levels_speak_of_it_are_asked(level: float | None) -> None:
    assert "spread" not in asked(about(), Levels())
    assert "spread" in asked(about(), Levels.model_validate({"spread": {"percent": level}}))
