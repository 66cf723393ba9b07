"""The time to fill a batch: by hand for a few rows, then as figures, chart and what the plan takes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from kedge.evidence.run import Run
from kedge.services.planning import make_plan
from spark_checks.job import Audit
from spark_checks.mirror import check as mirror
from spark_checks.mirror.batch_advice import recommendations
from spark_checks.mirror.fill import CLASSES_MS, batches, fills
from spark_checks.report import charts, documents
from spark_checks.report import page as report
from tests.planned import instances, mirrors, value
from tests.spark.frames import Row, evidence, run, us
from tests.spark.test_mirror import copy, source, topics

pytestmark = pytest.mark.spark


def about(flow: str = "metrics", **changes: Any) -> Run:
    named = {
        "flow": flow,
        "source": {"cluster": "leaf", "topic": "t0"},
        "target": {"cluster": "agg", "topic": "leaf.t0"},
        **changes,
    }
    return run(topics=topics(0), mirrors=[named], producers={}, groups={})


def at(ms: float, size: int = 100, partition: int = 0, topic: str = "t0") -> Row:
    return source(int(ms), timestamp_us=us(0) + int(ms * 1000), bytes=size, partition=partition, topic=topic)


#: records, and (partition, filled, fill_ms) of each batch of 300 bytes
CASES: dict[str, tuple[list[Row], set[tuple[int, bool, int]]]] = {
    "comes out even": ([at(0), at(5), at(20), at(100), at(200), at(240)], {(0, True, 20), (0, True, 140)}),
    "the last one is not full": ([at(0), at(5), at(20), at(100)], {(0, True, 20), (0, False, 0)}),
    "not in the order of time": ([at(20), at(0), at(5)], {(0, True, 20)}),
    "all at once": ([at(7, 600)], {(0, True, 0)}),
    "a record lies across two": (
        [at(0, 200), at(10, 200), at(50, 200)],
        {(0, True, 10), (0, True, 40)},
    ),
    "partitions are apart": (
        [at(0), at(10), at(20), at(0, 150, 1), at(90, 150, 1)],
        {(0, True, 20), (1, True, 90)},
    ),
    "the target is not counted": ([at(0, 300), at(5, 300, topic="leaf.t0")], {(0, True, 0)}),
    "nothing in it": ([at(0, 0)], set()),
}


@pytest.mark.parametrize("case", CASES)
def test_batches_are_cut_by_bytes_and_timed_from_first_to_last(spark: SparkSession, case: str) -> None:
    rows, expected = CASES[case]
    rows = [row | ({"cluster": "agg"} if row["topic"] == "leaf.t0" else {}) for row in rows]
    cuts = batches(evidence(spark, about(batch_bytes=300), records=rows)).collect()
    assert {(cut["partition"], cut["filled"], cut["fill_ms"]) for cut in cuts} == expected


def test_percentiles_are_by_nearest_rank_over_all_partitions_and_for_the_slowest(spark: SparkSession) -> None:
    # Batch n of partition 0 takes n ms, of 100 batches; partition 1 fills one in 500 ms; 2 fills none.
    rows: list[Row] = []
    for n in range(1, 101):
        rows += [at(1000 * n, 150), at(1000 * n + n, 150)]
    rows += [at(0, 150, 1), at(500, 150, 1), at(0, 10, 2)]
    found = fills(evidence(spark, about(batch_bytes=300), records=rows))["metrics"]
    by_class = dict(zip([*CLASSES_MS, None], found["histogram"], strict=True))
    assert {name: value for name, value in found.items() if name != "histogram"} == {
        "filled_batches": 101,
        "fill_p95_ms": 96,
        "fill_p99_ms": 100,
        "fill_p95_of_the_slowest_partition_ms": 500,
        "partitions": 3,
        "partitions_without_a_full_batch": 1,
    }
    assert {end: count for end, count in by_class.items() if count} == {
        1: 1, 2: 1, 5: 3, 10: 5, 20: 10, 50: 30, 100: 50, 500: 1,
    }  # fmt: skip


def test_a_flow_without_records_has_no_fill_times(spark: SparkSession) -> None:
    found = fills(evidence(spark, about(), records=[]))["metrics"]
    assert (found["filled_batches"], found["partitions"], sum(found["histogram"])) == (0, 0, 0)


def mirrored(count: int) -> list[Row]:
    """Each batch of 50,000 bytes takes 4 s."""
    sources = [source(n, timestamp_us=us(4 * (n - n % 2) + 4 * (n % 2)), bytes=25_000) for n in range(count)]
    copies = [copy(n, timestamp_us=row["timestamp_us"], bytes=25_000) for n, row in enumerate(sources)]
    return [row | {"topic": "t0"} for row in sources] + [row | {"topic": "leaf.t0"} for row in copies]


def audited(spark: SparkSession, count: int) -> Audit:
    tables = evidence(spark, about(), records=mirrored(count))
    return Audit("r", "pass", (mirror.check(tables, Levels()),), tables, (), None, {})


def test_the_plan_takes_what_was_recommended(spark: SparkSession) -> None:
    audit = audited(spark, 200)
    (result,) = audit.results
    assert result.verdict == "pass", result.because
    assert result.measured["batches_of"]["metrics"]["fill_p99_ms"] == 4000
    recommended = yaml.safe_load(documents.recommendations(audit))
    times = {"fill_ms_p95": 4000, "fill_ms_p99": 4000}
    assert recommended == {"recommended": {"mirror_maker_flows": {"metrics": times}}}
    before, after = (
        value(instances(make_plan(mirrors(1, common=common)), "mirror_maker")["mm1"][0], "linger.ms")
        for common in ({}, recommended)
    )
    assert (before, after) == ("15000", "4000")


def test_the_report_draws_the_fill_times(spark: SparkSession) -> None:
    audit = audited(spark, 200)
    (bars,) = charts.batch_fill(audit)["data"]
    assert {x: y for x, y in zip(bars["x"], bars["y"], strict=True) if y} == {"5,000": 100.0}
    assert 'id="fill-chart"' in report.render(audit)


def test_a_few_batches_are_measured_and_recommend_nothing(spark: SparkSession) -> None:
    audit = audited(spark, 20)
    assert audit.results[0].measured["batches_of"]["metrics"]["filled_batches"] == 10
    assert audit.results[0].recommendations == ()


@pytest.mark.parametrize(("batches", "recommended"), [(99, 0), (100, 1)])
def test_a_hundred_batches_are_enough_to_recommend_their_fill_times(batches: int, recommended: int) -> None:
    filled: Any = {"metrics": {"filled_batches": batches, "fill_p95_ms": 10, "fill_p99_ms": 20}}
    assert len(recommendations(filled, {}, [])) == recommended
