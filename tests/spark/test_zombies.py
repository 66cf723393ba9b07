"""Members that hold partitions and do not read them, on rows that can be checked by eye."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from spark_checks.checks import zombies
from spark_checks.registry import asked
from spark_checks.results import Result
from tests.spark.frames import GROUP, TOPIC, Row, evidence, got, run, sent, us

pytestmark = pytest.mark.spark

SENT = [sent(n, intended_us=us(n), sent_us=us(n), acked_us=us(n)) for n in range(20)]


def about() -> Any:
    return run(
        ended_us=us(21),
        measured_until_us=us(20),
        groups={GROUP: {"via": "rest", "topics": [TOPIC]}},
    )


def event(at: float, consumer: str, what: str = "assigned", partition: int = 0) -> Row:
    row = {"group": GROUP, "consumer": consumer, "topic": TOPIC, "partition": partition}
    return {**row, "event": what, "at_us": us(at)}


def judged(spark: SparkSession, events: list[Row], read: list[float], level: float | None = None) -> Result:
    deliveries = [got(int(at), received_us=us(at)) for at in read]
    rows = evidence(spark, about(), ledger=SENT, deliveries=deliveries, assignments=events)
    return zombies.check(rows, Levels.model_validate({"zombies": {"held_s": level}}))


def test_a_member_that_never_read_its_partitions_is_named_with_them(spark: SparkSession) -> None:
    events = [event(0, "a"), event(4, "a", "revoked"), event(4, "gone on 10.0.0.1")]
    events += [event(14, "gone on 10.0.0.1", "revoked"), event(14, "a")]
    result = judged(spark, events, [1, 2, 3, *range(14, 20)])
    assert result.verdict == "measured"
    assert result.anomalies["zombie"].count == 1
    (example,) = result.anomalies["zombie"].examples
    assert (example["member"], example["partitions"]) == ("gone on 10.0.0.1", "t-0")
    assert (example["held_s"], example["unread_records"]) == (10, 11)
    for level, verdict in ((9.9, "fail"), (10, "pass")):
        assert judged(spark, events, [1, 2, 3, *range(14, 20)], level=level).verdict == verdict


def test_a_member_that_stopped_reading_counts_from_its_last_delivery(spark: SparkSession) -> None:
    result = judged(spark, [event(0, "a")], [1, 2, 3])
    assert result.measured["held_s"] == 17


@pytest.mark.parametrize(("last", "zombies"), [(13.0, 1), (14.0, 1), (14.1, 0)])
def test_a_silence_under_six_seconds_is_a_slow_read(spark: SparkSession, last: float, zombies: int) -> None:
    events = [event(0, "a"), event(20, "a", "revoked")]
    read = [n / 2 for n in range(int(last) * 2)] + [last]
    assert judged(spark, events, read, level=0).measured["zombies"] == zombies


def test_members_that_read_are_none(spark: SparkSession) -> None:
    events = [event(0, "a"), event(10, "a", "revoked"), event(10, "b")]
    assert judged(spark, events, [n + 0.1 for n in range(20)]).measured == {"zombies": 0, "held_s": 0.0}


def test_partitions_to_which_nothing_came_leave_nothing_unread(spark: SparkSession) -> None:
    result = judged(spark, [event(0, "a"), event(0, "idle", partition=1)], [n + 0.1 for n in range(20)])
    assert result.measured["zombies"] == 0


def test_a_member_with_a_quiet_and_a_read_partition_reads(spark: SparkSession) -> None:
    events = [event(0, "a"), event(0, "a", partition=1)]
    assert judged(spark, events, [n + 0.1 for n in range(20)]).measured["zombies"] == 0


def test_without_a_watched_group_nothing_is_known(spark: SparkSession) -> None:
    assert judged(spark, [], [1, 2, 3]).verdict == "unknown"


def test_zombies_are_looked_for_where_consumers_come_through_rest() -> None:
    assert "zombies" not in asked(run(), Levels())
    assert "zombies" in asked(about(), Levels())
    assert "zombies" in asked(run(), Levels.model_validate({"zombies": {"held_s": 5}}))
