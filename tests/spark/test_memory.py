"""Memory of Streams applications against the plan: who passed which bound, and what is to blame."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from kedge.evidence.run import Run
from spark_checks.checks import memory
from spark_checks.job import Audit
from spark_checks.registry import asked
from spark_checks.report import charts
from tests.spark.frames import Row, evidence, run, us

pytestmark = pytest.mark.spark

MIB = 1 << 20
WHO = {"host": "h", "service": "streams_app", "instance": "joins"}
#: Of 1,000 MiB the heap has 400 and RocksDB 300, so the plan states 300 beside them.
PLAN = {
    "MemoryMax": "1000M",
    "KAFKA_HEAP_OPTS": "-Xms400m -Xmx400m",
    "cache.bytes": str(300 * MIB),
    "memtables.bytes": str(225 * MIB),
}


def planned(**changes: str | None) -> list[Row]:
    values = {key: value for key, value in (PLAN | changes).items() if value is not None}
    return [WHO | {"file": "f", "key": k, "planned": v, "running": v} for k, v in values.items()]


def sample(second: float, rss: int, cache: int = 200, heap: int | None = 400, **changes: Any) -> Row:
    """A sample of the application; sizes in MiB."""
    return {
        **WHO,
        "at_us": us(second),
        "state": "RUNNING",
        "rss_bytes": rss * MIB,
        "heap_bytes": None if heap is None else heap * MIB,
        "heap_used_bytes": 100 * MIB,
        "non_heap_bytes": 50 * MIB,
        "direct_bytes": MIB,
        "stores": 8,
        "block_cache_bytes": cache * MIB,
        "pinned_bytes": 10 * MIB,
        "memtable_bytes": 150 * MIB,
        "table_readers_bytes": 5 * MIB,
        "restoring_records": 0,
    } | changes


def about(*hosts: str) -> Run:
    instances = [{"host": host, "instance": "joins"} for host in hosts]
    return run(applications=[{"name": "joins", "instances": instances}])


@pytest.mark.parametrize(
    ("rows", "verdict", "kinds", "blame"),
    [
        ([sample(1, 800), sample(2, 1000)], "pass", [], None),
        ([sample(1, 800), sample(2, 1001)], "fail", ["rss_over"], "beside"),
        ([sample(1, 1100, heap=900)], "fail", ["rss_over"], "heap"),
        ([sample(1, 1300, cache=700)], "fail", ["rocksdb_over", "rss_over"], "rocksdb"),
        ([sample(1, 800, cache=301)], "fail", ["rocksdb_over"], "rocksdb"),
        ([sample(1, 950, cache=100)], "pass", [], None),
    ],
    ids=["at its limit", "beside", "heap", "rocksdb", "bound alone", "beside is only reported"],
)
def test_the_bound_that_was_passed_fails_and_names_the_share_to_blame(
    spark: SparkSession, rows: list[Row], verdict: str, kinds: list[str], blame: str | None
) -> None:
    tables = evidence(spark, about("h"), settings=planned(), rocksdb=rows)
    result = memory.check(tables, Levels())
    assert (result.verdict, sorted(result.anomalies)) == (verdict, kinds)
    assert {one.examples[0]["to_blame"] for one in result.anomalies.values()} <= {blame}
    if blame:
        assert f"to blame: {blame}" in result.because
        assert result.recommendations


@pytest.mark.parametrize(
    ("level", "verdict"),
    [
        ({"rss_percent": 110}, "pass"),
        ({"rss_percent": None}, "pass"),
        ({"rss_percent": 90}, "fail"),
        ({"rss_percent": None, "beside_percent": 100}, "fail"),
    ],
)
def test_levels_say_how_much_of_the_plan_may_be_reached(
    spark: SparkSession, level: dict[str, float | None], verdict: str
) -> None:
    tables = evidence(spark, about("h"), settings=planned(), rocksdb=[sample(1, 1050)])
    assert memory.check(tables, Levels.model_validate({"memory": level})).verdict == verdict


@pytest.mark.parametrize(
    ("tables", "because"),
    [
        ({"settings": planned()}, "no rocksdb table"),
        ({"rocksdb": [sample(1, 800)]}, "joins on h has no memory in the plan"),
        (
            {"rocksdb": [sample(1, 800)], "settings": planned(MemoryMax=None)},
            "joins on h has no memory in the plan",
        ),
        ({"rocksdb": [], "settings": planned()}, "joins on h reported nothing"),
    ],
    ids=["no samples table", "no plan", "no limit in the plan", "no sample"],
)
def test_what_is_not_on_record_is_unknown(
    spark: SparkSession, tables: dict[str, list[Row]], because: str
) -> None:
    result = memory.check(evidence(spark, about("h"), **tables), Levels())
    assert result.verdict == "unknown"
    assert because in result.because


def test_one_silent_instance_keeps_the_others_from_passing(spark: SparkSession) -> None:
    tables = evidence(spark, about("h", "h2"), settings=planned(), rocksdb=[sample(1, 800)])
    result = memory.check(tables, Levels())
    assert (result.verdict, result.because) == ("unknown", "joins on h2 reported nothing of its memory")


@pytest.mark.parametrize(
    ("silent", "ran", "longest"),
    [
        ([(3, 30)], [(0, 30)], 27),
        ([(0, 16), (20, 31)], [(0, 31)], 16),
        ([(2, 28)], [(0, 3), (27, 30)], 0),
        ([(2, 28)], [(0, 3), (8, 30)], 20),
        ([], [(0, 30)], 0),
    ],
    ids=["to the end", "the longest", "a restart explains it", "a restart explains a part", "none"],
)
def test_the_longest_time_without_a_sample_leaves_restarts_out(
    silent: list[tuple[int, int]], ran: list[tuple[int, int]], longest: float
) -> None:
    in_us = ([(begin * 1_000_000, end * 1_000_000) for begin, end in spans] for spans in (silent, ran))
    assert memory.unseen_s(*in_us) == longest


@pytest.mark.parametrize("restarted", [True, False])
def test_an_instance_that_fell_silent_is_unknown_unless_it_was_restarted(
    spark: SparkSession, restarted: bool
) -> None:
    long = about("h").model_copy(update={"load_until_us": us(40), "ended_us": us(41)})
    actions = [
        WHO | {"action": action, "started_us": us(5), "ended_us": us(until), "ok": True}
        for action, until in (("stop", 6), ("ready", 35))
    ]
    rows = [sample(at, 800) for at in (1, 4, 36, 39)]
    tables = evidence(spark, long, settings=planned(), rocksdb=rows, actions=actions if restarted else [])
    result = memory.check(tables, Levels())
    assert result.verdict == ("pass" if restarted else "unknown")
    assert ("joins on h reported nothing of its memory for 32 s" in result.because) != restarted


def test_a_restart_after_the_load_asks_for_no_samples_until_then(spark: SparkSession) -> None:
    actions = [
        WHO | {"action": action, "started_us": us(begin), "ended_us": us(until), "ok": True}
        for action, begin, until in (("stop", 60, 61), ("ready", 61, 65))
    ]
    tables = evidence(
        spark, about("h"), settings=planned(), rocksdb=[sample(1, 800), sample(9, 800)], actions=actions
    )
    assert memory.check(tables, Levels()).verdict == "pass"


def test_the_limit_of_another_service_is_not_the_applications(spark: SparkSession) -> None:
    other = [row | {"service": "mirror_maker"} for row in planned(MemoryMax="500M")]
    tables = evidence(spark, about("h"), settings=[*planned(), *other], rocksdb=[sample(1, 800)])
    assert memory.check(tables, Levels()).verdict == "pass"


def test_figures_stand_beside_the_plan_and_are_drawn(spark: SparkSession) -> None:
    rows = [sample(0, 700), sample(1, 800, cache=250), sample(2, 750)]
    tables = evidence(spark, about("h"), settings=planned(), rocksdb=rows)
    result = memory.check(tables, Levels())
    figures = result.measured["joins on h"]
    assert (figures["rss_mib"], figures["planned_rss_mib"], figures["rss_percent_of_plan"]) == (800, 1000, 80)
    assert (figures["block_cache_mib"], figures["planned_rocksdb_mib"]) == (250, 300)
    assert (figures["memtables_mib"], figures["planned_memtables_mib"]) == (150, 225)
    assert (figures["beside_mib"], figures["planned_beside_mib"], figures["table_readers_mib"]) == (
        150,
        300,
        5,
    )
    chart = charts.memory(Audit("r", "pass", (result,), tables, (), None, {}))
    lines = {trace["name"]: list(zip(trace["x"], trace["y"], strict=True)) for trace in chart["data"]}
    assert lines["RSS"] == [(0, 700), (1, 800), (2, 750)]
    assert lines["planned limit"] == [(0, 1000), (2, 1000)]


def test_memory_is_asked_for_where_applications_run_or_a_level_says_so() -> None:
    assert "memory" not in asked(run(), Levels())
    assert "memory" in asked(about("h"), Levels())
    assert "memory" in asked(run(), Levels.model_validate({"memory": {"rss_percent": 90}}))
