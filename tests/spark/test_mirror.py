"""Mirrors: each kind of anomaly is found, alone, and named by its place; a good mirror has none."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from kedge.evidence.run import Mirror, Run
from spark_checks.mirror import check as mirror
from spark_checks.mirror.parity import MirrorHop, mirror_hop
from spark_checks.registry import asked
from spark_checks.results import Result
from tests.spark.frames import Row, evidence, held, run, us

pytestmark = pytest.mark.spark

FIVE = range(5)


def source(seq: int, **changes: Any) -> Row:
    """A record of the source, with its producer's timestamp."""
    return held(seq, timestamp_us=us(seq), timestamp_type="create", key_hash=7, headers_hash=8) | changes


def copy(seq: int, **changes: Any) -> Row:
    """Its copy: in another partition and at another offset, else the same."""
    return source(seq, cluster="agg", partition=1, offset=50 + seq) | changes


def copies(*without: int, extra: list[Row] | None = None, **changed: Row) -> list[Row]:
    return [copy(n) | changed.get(f"n{n}", {}) for n in FIVE if n not in without] + (extra or [])


DAMAGED: Row = {"crc_ok": False, "value_hash": 999}
#: A real topic's records carry no identity; these have values of their own.
PLAIN: Row = {"producer": None, "seq": None, "crc": None, "crc_ok": None}
ALIKE: Row = PLAIN | {"value_hash": 1, "timestamp_us": us(0)}

Case = tuple[list[Row], list[Row], dict[str, list[int]]]
#: source, target, and by kind the offsets (of the source; in the target what is not in the source)
CASES: dict[str, Case] = {
    "nothing wrong": ([source(n) for n in FIVE], copies(), {}),
    "a record dropped": ([source(n) for n in FIVE], copies(3), {"missing": [3]}),
    "the last records dropped": ([source(n) for n in FIVE], copies(3, 4), {"missing": [3, 4]}),
    "a record twice": ([source(n) for n in FIVE], copies(extra=[copy(1, offset=70)]), {"duplicated": [1]}),
    "twice in the source as well": (
        [*map(source, FIVE), source(1, offset=5)],
        copies(extra=[copy(1, offset=70)]),
        {},
    ),
    "another key": ([source(n) for n in FIVE], copies(n2={"key_hash": 1}), {"altered_key": [2]}),
    "another value": ([source(n) for n in FIVE], copies(n2={"value_hash": 1}), {"altered_value": [2]}),
    "other headers": ([source(n) for n in FIVE], copies(n2={"headers_hash": 1}), {"altered_headers": [2]}),
    "another timestamp": (
        [source(n) for n in FIVE],
        copies(n2={"timestamp_us": us(9)}),
        {"altered_timestamp": [2]},
    ),
    "everything else altered": (
        [source(n) for n in FIVE],
        copies(n2={"key_hash": 1, "headers_hash": 1, "timestamp_us": us(9)}),
        {"altered_key": [2], "altered_headers": [2], "altered_timestamp": [2]},
    ),
    "a damaged value": ([source(n) for n in FIVE], copies(n2=DAMAGED), {"altered_value": [2]}),
    "a damaged identity": (
        [source(n) for n in FIVE],
        copies(n2=DAMAGED | {"seq": 900}),
        {"altered_value": [2]},
    ),
    "damaged in the source already": (
        [source(n) | (DAMAGED if n == 2 else {}) for n in FIVE],
        copies(n2=DAMAGED),
        {},
    ),
    "a record that the source does not have": (
        [source(n) for n in FIVE],
        copies(extra=[copy(77)]),
        {"unexpected": [127]},
    ),
    "real data, nothing wrong": ([source(n) | PLAIN for n in FIVE], [copy(n) | PLAIN for n in FIVE], {}),
    "real data, one dropped": (
        [source(n) | PLAIN for n in FIVE],
        [copy(n) | PLAIN for n in FIVE if n != 3],
        {"missing": [3]},
    ),
    "real data, another value": (
        [source(n) | PLAIN for n in FIVE],
        [copy(n) | PLAIN | ({"value_hash": 1} if n == 3 else {}) for n in FIVE],
        {"altered_value": [3]},
    ),
    "real data, another key and other headers": (
        [source(n) | PLAIN for n in FIVE],
        [copy(n) | PLAIN | ({"key_hash": 1, "headers_hash": 2} if n == 3 else {}) for n in FIVE],
        {"altered_key": [3], "altered_headers": [3]},
    ),
    "equal records, each as often": (
        [source(n) | ALIKE for n in FIVE],
        [copy(n) | ALIKE for n in FIVE],
        {},
    ),
    "equal records, one more": (
        [source(n) | ALIKE for n in FIVE],
        [copy(n) | ALIKE for n in range(6)],
        {"duplicated": [0]},
    ),
    "equal records, one less": (
        [source(n) | ALIKE for n in FIVE],
        [copy(n) | ALIKE for n in range(4)],
        {"missing": [0]},
    ),
    "two records swapped": (
        [source(n) for n in FIVE],
        copies(n2={"offset": 53}, n3={"offset": 52}),
        {"reordered": [2]},
    ),
    "a record that came late, behind two others": (
        [source(n) for n in FIVE],
        copies(n1={"offset": 60}),
        {"reordered": [1]},
    ),
    "swapped, but now in partitions of their own": (
        [source(n) for n in FIVE],
        copies(n2={"offset": 53, "partition": 0}, n3={"offset": 52}),
        {},
    ),
    "of two partitions of the source, which have no order among them": (
        [source(n, partition=n % 2) for n in FIVE],
        copies(n2={"offset": 53}, n3={"offset": 52}),
        {},
    ),
    "the first copy in order, another later": (
        [source(n) for n in FIVE],
        copies(extra=[copy(0, offset=90), copy(1, offset=91)]),
        {"duplicated": [0, 1]},
    ),
    "real data, two records swapped": (
        [source(n) | PLAIN for n in FIVE],
        [copy(n) | PLAIN | {"offset": 50 + {2: 3, 3: 2}.get(n, n)} for n in FIVE],
        {"reordered": [2]},
    ),
    "equal records, which have no order": (
        [source(n) | ALIKE for n in FIVE],
        [copy(n) | ALIKE | {"offset": 60 - n} for n in FIVE],
        {},
    ),
    "a stranger beside": ([source(n) for n in FIVE], copies(extra=[copy(9) | PLAIN]), {"unexpected": [59]}),
}


def topics(number: int) -> list[Row]:
    both = run().topics[0].model_dump()
    return [
        both | {"topic": f"t{number}"},
        both | {"cluster": "agg", "topic": f"leaf.t{number}"},
    ]


def about(mirrors: int, **changes: Any) -> Run:
    named = [
        {
            "flow": f"f{n}",
            "source": {"cluster": "leaf", "topic": f"t{n}"},
            "target": {"cluster": "agg", "topic": f"leaf.t{n}"},
        }
        for n in range(mirrors)
    ]
    every = [topic for n in range(mirrors) for topic in topics(n)]
    return run(topics=every, mirrors=named, producers={}, groups={}, **changes)


def placed(number: int, one: list[Row], two: list[Row]) -> list[Row]:
    """Give a case topics of its own, so that all cases are one piece of evidence."""
    return [row | {"topic": f"t{number}"} for row in one] + [
        row | {"topic": f"leaf.t{number}"} for row in two
    ]


def found_in(hop: MirrorHop, cases: int) -> list[dict[str, list[int]]]:
    """Return for each case {kind: [offsets]}."""
    found: list[dict[str, list[int]]] = [{} for _ in range(cases)]
    for kind, anomaly in hop.anomalies.items():
        assert len(anomaly.examples) == anomaly.count, "the cases outgrew the examples that are kept"
        for example in anomaly.examples:
            offset = example.get("offset", example.get("target_offset"))
            found[int(example["flow"][1:])].setdefault(kind, []).append(offset)
    return found


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, dict[str, list[int]]]:
    rows = [row for n, (one, two, _) in enumerate(CASES.values()) for row in placed(n, one, two)]
    hop = mirror_hop(evidence(spark, about(len(CASES)), records=rows))
    return dict(zip(CASES, found_in(hop, len(CASES)), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_between_source_and_target_exactly_what_happened_is_found(
    found: dict[str, dict[str, list[int]]], case: str
) -> None:
    assert found[case] == CASES[case][2]


def checked(spark: SparkSession, rows: list[Row], levels: Row | None = None, **changes: Any) -> Result:
    tables = evidence(spark, about(1, **changes), records=rows)
    return mirror.check(tables, Levels.model_validate({"mirror": levels or {}}))


def test_duplicates_are_reported_and_judged_only_by_a_level(spark: SparkSession) -> None:
    rows = placed(0, [source(n) for n in FIVE], copies(extra=[copy(1, offset=70)]))
    result = checked(spark, rows)
    assert (result.verdict, result.measured["duplicated"]) == ("pass", 1)
    strict = checked(spark, rows, {"duplicated": 0})
    assert strict.verdict == "fail"
    assert "1 duplicated (first: source leaf/t0, partition 0, offset 1, target agg/leaf.t0" in strict.because


def test_a_mirror_that_promises_exactly_once_is_allowed_no_duplicate(spark: SparkSession) -> None:
    rows = placed(0, [source(n) for n in FIVE], copies(extra=[copy(1, offset=70)]))
    (named,) = about(1).model_dump()["mirrors"]
    result = mirror.check(
        evidence(
            spark,
            about(1).model_copy(update={"mirrors": [Mirror.model_validate(named | {"exactly_once": True})]}),
            records=rows,
        ),
        Levels(),
    )
    assert result.verdict == "fail"
    assert "1 duplicated by f0: leaf/t0 to agg/leaf.t0, which promises exactly once" in result.because


def test_a_reordered_record_fails_the_mirror_and_is_named_by_its_places(spark: SparkSession) -> None:
    rows = placed(0, [source(n) for n in FIVE], copies(n1={"offset": 60}))
    result = checked(spark, rows)
    assert result.verdict == "fail"
    assert result.because.startswith(
        "1 reordered (first: source leaf/t0, partition 0, offset 1, target agg/leaf.t0"
    )
    assert result.anomalies["reordered"].examples[0]["after_offset"] == 4


def test_a_copy_of_a_record_from_before_the_run_is_unknown_and_nothing_unexpected(
    spark: SparkSession,
) -> None:
    before = copy(9) | PLAIN | {"timestamp_us": us(-1)}
    result = checked(spark, placed(0, [source(n) for n in FIVE], copies(extra=[before])))
    assert (result.verdict, result.anomalies) == ("unknown", {})
    assert "f0: leaf/t0 to agg/leaf.t0: 1 from before the run, copied late or again" in result.because
    assert (result.measured["unexpected"], result.measured["f0 t0"]["earlier"]) == (0, 1)
    # With an identity it is of this run, whatever its time; and one that is missing too is altered.
    of_run = checked(
        spark, placed(0, [source(n) for n in FIVE], copies(extra=[copy(9, timestamp_us=us(-1))]))
    )
    assert of_run.verdict == "fail"
    set_back = [copy(n) | PLAIN | ({"timestamp_us": us(-1)} if n == 3 else {}) for n in FIVE]
    altered = checked(spark, placed(0, [source(n) | PLAIN for n in FIVE], set_back))
    assert {kind: one.count for kind, one in altered.anomalies.items()} == {"altered_timestamp": 1}


def test_a_target_with_append_times_has_no_timestamps_to_compare(spark: SparkSession) -> None:
    append: Row = {"timestamp_type": "append", "timestamp_us": us(9)}
    result = checked(spark, placed(0, [source(n) for n in FIVE], copies(**{f"n{n}": append for n in FIVE})))
    assert result.verdict == "pass"
    assert result.measured["f0 t0"]["timestamps_compared"] is False


def test_a_mirror_without_evidence_is_unknown(spark: SparkSession) -> None:
    assert mirror.check(evidence(spark, about(1)), Levels()).verdict == "unknown"
    assert checked(spark, []).verdict == "unknown"
    assert mirror.check(evidence(spark, run(), records=[]), Levels()).verdict == "unknown"


def test_what_the_run_names_decides_whether_mirrors_are_checked() -> None:
    strict = Levels.model_validate({"mirror": {"duplicated": 0}})
    assert "mirror" not in asked(run(), Levels())
    assert "mirror" in asked(run(), strict)
    assert list(asked(about(1), Levels())) == ["mirror"]
