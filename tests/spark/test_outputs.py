"""What an application made of its input: due once or at least once, under keys of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from kedge.evidence.run import Run
from spark_checks.checks import outputs
from spark_checks.registry import asked
from tests.spark.frames import TOPIC, Row, collecting, evidence, held, many, run, us

pytestmark = pytest.mark.spark


def about(exactly_once: bool = False, **output: object) -> Run:
    """An application that makes two outputs of each record."""
    place = {"cluster": "leaf", "topic": TOPIC}
    topic = place | {"partitions": 2, "start_offsets": {"0": 0}, "end_offsets": {"0": 99}}
    app = {"name": "joins", "input": place, "output": place | {"topic": "out"}, "per_record": 2}
    return run(
        topics=[topic, topic | {"topic": "out"} | output], applications=[app | {"exactly_once": exactly_once}]
    )


def made(seq: int, key: int, **changes: object) -> Row:
    """An output of a record; its own key tells it from the record's other outputs."""
    return held(seq, topic="out", key_hash=key, key_ok=False) | changes


GOOD = [held(0), held(1), made(0, 1), made(0, 2), made(1, 1), made(1, 2)]


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize(
    ("rows", "kind", "count"),
    [
        (GOOD, None, 0),
        (GOOD[:-1], "missing", 1),
        (GOOD[:-2], "missing", 2),
        ([*GOOD[:-1], made(1, 1)], "missing", 1),
        ([*GOOD[:-1], made(1, 2, crc=7)], "missing", 1),
        ([*GOOD[:-1], made(1, 2, crc_ok=False)], "missing", 1),
        ([*GOOD, made(1, 3)], "unexpected", 1),
        ([*GOOD, made(9, 1)], "unexpected", 1),
    ],
    ids=["good", "one", "all of one", "a copy is no other", "another value", "damaged", "beyond", "unknown"],
)
def test_each_output_that_is_due_is_there_and_no_other(
    spark: SparkSession, exactly_once: bool, rows: list[Row], kind: str | None, count: int
) -> None:
    result = outputs.check(evidence(spark, about(exactly_once), records=rows), Levels())
    assert result.verdict == ("fail" if kind else "pass")
    if kind:
        assert result.anomalies[kind].count == count
        assert f"joins: {count} outputs {kind} (first: producer 0, seq" in result.because


@pytest.mark.parametrize(
    ("exactly_once", "level", "verdict"),
    [
        (False, {}, "pass"),
        (True, {}, "fail"),
        (False, {"duplicated": 0}, "fail"),
        (True, {"duplicated": 1}, "pass"),
    ],
)
def test_an_output_that_came_again_is_judged_by_what_the_application_promises(
    spark: SparkSession, exactly_once: bool, level: dict[str, int], verdict: str
) -> None:
    tables = evidence(spark, about(exactly_once), records=[*GOOD, made(1, 2, offset=50)])
    result = outputs.check(tables, Levels.model_validate({"outputs": level}))
    assert (result.verdict, result.anomalies["duplicated"].count) == (verdict, 1)


def test_a_record_that_was_put_in_twice_may_come_out_twice(spark: SparkSession) -> None:
    rows = [*GOOD, held(1, offset=60), made(1, 1, offset=61), made(1, 2, offset=62)]
    result = outputs.check(evidence(spark, about(True), records=rows), Levels())
    assert (result.verdict, result.anomalies) == ("pass", {})


@pytest.mark.parametrize(
    ("rows", "output", "because"),
    [
        (None, {}, "the topics were not read"),
        ([], {}, "holds no record of the run"),
        (GOOD, {"cleanup_policy": "compact"}, "out is compacted"),
        (GOOD, {"log_start_offsets": {"0": 5}}, "lost records of the run to retention"),
        (GOOD[:-1], {"log_start_offsets": {"0": 5}}, "lost records of the run to retention"),
        ([*GOOD, made(9, 1)], {"cleanup_policy": "compact"}, "out is compacted"),
        (GOOD[:2], {"topic": "other"}, "names no offsets of leaf/out"),
    ],
)
def test_what_cannot_be_seen_is_unknown(
    spark: SparkSession, rows: list[Row] | None, output: dict[str, object], because: str
) -> None:
    tables = {} if rows is None else {"records": rows}
    result = outputs.check(evidence(spark, about(**output), **tables), Levels())
    assert result.verdict == "unknown"
    assert because in result.because


@pytest.mark.parametrize(
    ("timestamp_type", "level", "verdict", "said"),
    [
        ("append", 1500, "pass", "0 missing"),
        ("append", 1000, "fail", "99th percentile of the latency is 1,250 ms, the level is 1000 ms"),
        ("create", 1500, "unknown", "no latency, as its output topic has no times of the broker"),
    ],
)
def test_latency_goes_to_the_last_output_of_a_record_of_the_steady_window(
    spark: SparkSession, timestamp_type: str, level: float, verdict: str, said: str
) -> None:
    outs = [made(s, k, timestamp_type=timestamp_type) for s, k in ((0, 1), (0, 2), (1, 1))]
    # Record 0 belongs to the warm-up; of record 1 the first output came at once, the last 1.25 s after.
    late = made(1, 2, timestamp_us=us(2.25), timestamp_type=timestamp_type)
    tables = evidence(spark, about(), records=[held(0), held(1), *outs, late])
    result = outputs.check(tables, Levels.model_validate({"outputs": {"p99_ms": level}}))
    assert (result.verdict, said in result.because) == (verdict, True)
    if timestamp_type == "append":
        assert result.measured["joins"]["latency_p50_ms"] == 1250


def test_what_is_collected_does_not_grow_with_records(spark: SparkSession) -> None:
    count, columns = 50_000, {"seq": "n", "offset": "n", "intended_us": f"{us(2)} + n"}
    rows = many(spark, "records", held(0), count, **columns, timestamp_us=f"{us(2)} + n")
    for key in (1, 2):
        # Each took another time.
        made_of = many(spark, "records", made(0, key), count, **columns, timestamp_us=f"{us(2)} + 2 * n")
        rows = rows.unionByName(made_of)
    whole = evidence(spark, about(), records=[])
    whole = replace(whole, tables={**whole.tables, "records": rows})
    with collecting(spark, "300k"):
        result = outputs.check(whole, Levels())
    measured = result.measured["joins"]
    assert (measured["due_records"], measured["missing"]) == (2 * count, 0)
    assert (measured["latency_p50_ms"], measured["latency_max_ms"]) == (25, 50)


def test_records_of_one_identity_are_told_apart_by_their_values(spark: SparkSession) -> None:
    into = [held(seq) for seq in range(300)]
    out = [made(seq, key, timestamp_us=us(seq + 2 + (key or 0))) for key in (1, None) for seq in range(300)]
    faults = [made(9, 2, offset=900), made(70, None, offset=901), made(80, 1, crc=7), held(90, offset=902)]
    rows = [*into, *out[:299], *out[301:], *faults, made(3, 1, crc_ok=False), held(5, topic="other")]
    found = outputs.check(evidence(spark, about(), records=rows), Levels())
    told = {kind: anomaly.count for kind, anomaly in found.anomalies.items()}
    assert told == {"missing": 2, "duplicated": 1, "unexpected": 2}


def test_outputs_are_asked_for_where_an_application_has_one() -> None:
    assert "outputs" in asked(about(), Levels())
    assert "outputs" not in asked(run(applications=[{"name": "joins"}]), Levels())
