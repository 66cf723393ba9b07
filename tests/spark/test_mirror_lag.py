"""How far a mirror is behind: in records by samples of both ends, and by how long each record took."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels, MirrorLevels
from spark_checks.mirror import check as mirror
from spark_checks.mirror.check import late
from spark_checks.mirror.lag import Lag, lags
from tests.spark.frames import Row, evidence, us
from tests.spark.test_mirror import about, copy, placed, source

pytestmark = pytest.mark.spark

TEN = range(10)


def end(cluster: str, at: float, offset: int, partition: int = 0) -> Row:
    topic = "t0" if cluster == "leaf" else "leaf.t0"
    return {"cluster": cluster, "topic": topic, "partition": partition, "at_us": us(at), "end_offset": offset}


#: Ten records, one a second; the target has the first four at 5 s, the others at 12 s.
ENDS = [
    end("leaf", 4.9, 5),
    end("agg", 0.5, 0),
    end("agg", 5, 4),
    end("leaf", 10, 10),
    end("agg", 11, 4),
    end("agg", 12, 10),
]
ROWS = placed(0, [source(n) for n in TEN], [copy(n, partition=0, offset=n) for n in TEN])


@pytest.fixture(scope="module")
def lag(spark: SparkSession) -> Lag:
    (found,) = lags(evidence(spark, about(1), records=ROWS, end_offsets=ENDS))
    return found


def test_records_behind_are_those_of_the_sources_last_sample_that_the_target_lacks(lag: Lag) -> None:
    # At 5 s one of five was lacking, at 11 s six of ten, at 12 s none; at 0.5 s the source had no sample yet.
    assert (lag.samples, lag.most_records, lag.last_records) == (3, 6, 0)
    assert lag.by_second == ((5, 1), (11, 6), (12, 0))


def test_a_delay_lasts_from_a_records_timestamp_to_the_first_sample_that_has_it(lag: Lag) -> None:
    # Records 0 to 3 took 5, 4, 3 and 2 s; 4 to 9 took 8 to 3 s.
    assert lag.delayed_records == 10
    assert lag.delay_ms == {"p50": 4000, "p99": 8000, "max": 8000}
    assert lag.widest_gap_ms == 6000


def test_a_record_that_was_there_before_the_first_sample_has_no_delay(spark: SparkSession) -> None:
    (found,) = lags(evidence(spark, about(1), records=ROWS, end_offsets=ENDS[2:]))
    assert found.delayed_records == 6


def test_timestamps_of_the_targets_own_give_no_delay(spark: SparkSession) -> None:
    rows = [row | {"timestamp_type": "append"} for row in ROWS]
    (found,) = lags(evidence(spark, about(1), records=rows, end_offsets=ENDS))
    assert (found.delay_ms, found.most_records) == (None, 6)


def test_a_mirror_without_samples_has_no_lag_and_the_others_have_theirs(spark: SparkSession) -> None:
    one, two = lags(evidence(spark, about(2), records=ROWS, end_offsets=ENDS))
    assert (one.most_records, two) == (6, Lag())


#: Eight seconds at most, of which six were between two samples.
SLOW = Lag(3, 6, 0, {"p50": 4000, "p99": 8000, "max": 8000}, 10, 6000)


@pytest.mark.parametrize(
    ("level", "lag", "problem", "doubt"),
    [
        ({}, SLOW, "", ""),
        ({"lag_records": 6}, SLOW, "", ""),
        ({"lag_records": 5}, SLOW, "m: 6 records behind, the level is 5", ""),
        (
            {"lag_records": 5},
            Lag(),
            "",
            "m: the ends of its topics were not sampled, so its lag is not known",
        ),
        ({"delay_max_ms": 8000}, SLOW, "", ""),
        # It is too long by 6 s at most: the target was not looked at for so long.
        ({"delay_max_ms": 7999}, SLOW, "", "m: delay_max_ms 8,000 is within its error of the level 7,999"),
        ({"delay_max_ms": 1999}, SLOW, "m: delay_max_ms 8,000, the level is 1,999", ""),
        ({"delay_p99_ms": 100}, Lag(), "", "m: delay_p99_ms was not measured"),
    ],
)
def test_lag_is_judged_where_it_has_a_level(
    level: dict[str, int], lag: Lag, problem: str, doubt: str
) -> None:
    allowed = MirrorLevels.model_validate(level).model_dump()
    problems, doubts, figures = late("m", lag, allowed, 0)
    assert (problems, doubts) == ([problem] if problem else [], [doubt] if doubt else [])
    # The figures say the same as the words.
    verdicts = {figure.verdict for figure in figures}
    assert ("fail" in verdicts, "unknown" in verdicts) == (bool(problem), bool(doubt))


def test_a_level_within_the_error_of_the_clocks_is_unknown() -> None:
    allowed = MirrorLevels(delay_max_ms=8000).model_dump()
    assert late("m", SLOW, allowed, 1)[1] == ["m: delay_max_ms 8,000 is within its error of the level 8,000"]


def test_the_lag_is_in_the_answer_of_the_check(spark: SparkSession) -> None:
    tables = evidence(spark, about(1), records=ROWS, end_offsets=ENDS)
    result = mirror.check(tables, Levels.model_validate({"mirror": {"lag_records": 5}}))
    assert result.verdict == "fail"
    assert result.measured["f0 t0"]["delay_max_ms"] == 8000
    assert result.series["lag"] == {"f0": ((5, 1), (11, 6), (12, 0))}
