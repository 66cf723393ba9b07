"""Each kind of anomaly is found, alone, and named by its place; good evidence has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from kedge.evidence.run import Run
from spark_checks.delivery import check as delivery
from spark_checks.delivery.ledger_evidence import unledgered
from spark_checks.delivery.order import reordered
from spark_checks.delivery.producer_to_topic import topic_hop
from spark_checks.delivery.topic_to_group import group_hop, skipped
from spark_checks.engine.anomalies import examples, tally
from spark_checks.engine.blocks import BLOCK_BITS
from spark_checks.engine.facts import ledger_totals
from spark_checks.engine.spark_types import TABLES, local_rows
from spark_checks.results import Anomaly
from tests.spark.frames import Row, evidence, got, held, run, sent, shuffled, unsure, us

pytestmark = pytest.mark.spark

FIVE = range(5)


def all_sent(**changed: Row) -> list[Row]:
    return [sent(n) | changed.get(f"n{n}", {}) for n in FIVE]


def all_held(*without: int, extra: list[Row] | None = None, **changed: Row) -> list[Row]:
    return [held(n) | changed.get(f"n{n}", {}) for n in FIVE if n not in without] + (extra or [])


FOREIGN: Row = {"producer": None, "seq": None, "crc": None, "crc_ok": None}
SWAPPED: dict[str, Any] = {"n1": {"seq": 2, "crc": 102}, "n2": {"seq": 1, "crc": 101}}
TOPIC_CASES: dict[str, tuple[list[Row], list[Row], dict[str, list[int]]]] = {
    "nothing wrong": (all_sent(), all_held(), {}),
    "a record dropped": (all_sent(), all_held(3), {"lost": [3]}),
    "the last records dropped": (all_sent(), all_held(3, 4), {"lost": [3, 4]}),
    "a record twice": (all_sent(), all_held(extra=[held(1, offset=7)]), {"duplicated": [1]}),
    "a record in another partition": (all_sent(), all_held(n2={"partition": 1}), {"misplaced": [2]}),
    "two records swapped": (all_sent(), all_held(**SWAPPED), {"misplaced": [1, 2], "reordered": [1]}),
    "both appended and acknowledged in the wrong order": (
        all_sent(n1={"offset": 2}, n2={"offset": 1}),
        all_held(n1={"offset": 2}, n2={"offset": 1}),
        {"reordered": [1]},
    ),
    "a flipped byte in the payload": (all_sent(), all_held(n2={"crc_ok": False}), {"corrupted": [2]}),
    "a flipped byte in the identity": (
        all_sent(),
        all_held(n2={"crc_ok": False, "seq": 900}),
        {"corrupted": [2]},
    ),
    "a value without identity in its place": (
        all_sent(),
        all_held(n2=FOREIGN),
        {"corrupted": [2]},
    ),
    "another key than it was given": (all_sent(), all_held(n2={"key_ok": False}), {"wrong_key": [2]}),
    "another key under an identity that nobody sent": (
        all_sent(),
        all_held(extra=[held(77, key_ok=False)]),
        {"unexpected": [77]},
    ),
    "another key of a record whose acknowledgement got lost": (
        [*all_sent()[:4], unsure(4)],
        all_held(n4={"key_ok": False}),
        {"wrong_key": [4]},
    ),
    "another value under the same identity": (all_sent(), all_held(n2={"crc": 7}), {"corrupted": [2]}),
    "a record that nobody sent": (all_sent(), all_held(extra=[held(77)]), {"unexpected": [77]}),
    "a foreign record between": (
        all_sent(),
        all_held(extra=[held(9) | FOREIGN]),
        {},
    ),
    "an acknowledgement that got lost": ([*all_sent()[:4], unsure(4)], all_held(), {}),
    "a failed send that is not there": ([*all_sent()[:4], unsure(4, "failed")], all_held(4), {}),
}


def of_case(rows: list[Row], number: int) -> list[Row]:
    """Give a case its own producer and topic, so that all cases are one piece of evidence."""
    mine: Row = {"topic": f"t{number}"}
    return [row | mine | ({} if row["producer"] is None else {"producer": number}) for row in rows]


def run_of(cases: Any) -> Run:
    return run(
        topics=[run().topics[0].model_dump() | {"topic": f"t{number}"} for number in range(len(cases))],
        producers={str(number): {"via": "kafka", "topic": f"t{number}"} for number in range(len(cases))},
    )


def by_case(anomalies: Mapping[str, Anomaly], cases: Any, key: str, where: str) -> dict[str, Any]:
    """Return {case: {kind: [what ``key`` says in each example]}}."""
    found: dict[str, Any] = {case: {} for case in cases}
    for kind, anomaly in anomalies.items():
        assert anomaly.count == len(anomaly.examples), "the cases outgrew the examples that are kept"
        for example in anomaly.examples:
            case = list(cases)[int(example[where][1:])]
            found[case].setdefault(kind, []).append(example[key])
    return found


@pytest.fixture(scope="module")
def topic_found(spark: SparkSession) -> dict[str, Any]:
    rows = [(of_case(one, n), of_case(two, n)) for n, (one, two, _) in enumerate(TOPIC_CASES.values())]
    ledger = [row for one, _ in rows for row in one]
    records = [row for _, two in rows for row in two]
    found = evidence(spark, run_of(TOPIC_CASES), ledger=ledger, records=records)
    hop = topic_hop(found)
    anomalies = dict(hop.anomalies) | reordered(found, hop)
    return by_case(anomalies, TOPIC_CASES, "seq", "topic")


@pytest.mark.parametrize("case", TOPIC_CASES)
def test_between_producer_and_topic_exactly_what_happened_is_found(
    topic_found: dict[str, Any], case: str
) -> None:
    assert topic_found[case] == TOPIC_CASES[case][2]


GROUP_CASES: dict[str, tuple[list[Row], dict[str, list[int]]]] = {
    "nothing wrong": ([got(n) for n in FIVE], {}),
    "a record not delivered": (
        [got(n) for n in FIVE if n != 2],
        {"undelivered": [2], "skipped": [3]},
    ),
    "the last record not delivered": ([got(n) for n in range(4)], {"undelivered": [4]}),
    "delivered again after a rebalance": (
        [*(got(n) for n in FIVE), *(got(n, consumer="d", received_us=us(n + 8)) for n in (3, 4))],
        {"redelivered": [3, 4]},
    ),
    "a consumer that went back": (
        [*(got(n) for n in FIVE), *(got(n, received_us=us(n + 8)) for n in (3, 4))],
        {"redelivered": [3, 4], "rewound": [3]},
    ),
    "positions handed over between consumers": (
        [got(n, consumer="d" if n in (1, 2) else "c") for n in FIVE],
        {},
    ),
    "another record than the topic holds": (
        [got(n) | {"seq": 800} if n == 1 else got(n) for n in FIVE],
        {"mismatched": [1]},
    ),
    "a record that the topic does not hold": ([*(got(n) for n in FIVE), got(50)], {"phantom": [50]}),
    "a record after the run's range": ([*(got(n) for n in FIVE), got(5000)], {}),
}


@pytest.fixture(scope="module")
def group_found(spark: SparkSession) -> dict[str, Any]:
    groups = {f"g{n}": {"via": "kafka", "topics": ["t"]} for n in range(len(GROUP_CASES))}
    rows = [row | {"group": f"g{n}"} for n, (rows, _) in enumerate(GROUP_CASES.values()) for row in rows]
    tables = {"ledger": all_sent(), "records": all_held(), "deliveries": rows}
    hop = group_hop(evidence(spark, run(groups=groups), **tables))
    return by_case(hop.anomalies, GROUP_CASES, "offset", "group")


@pytest.mark.parametrize("case", GROUP_CASES)
def test_between_topic_and_group_exactly_what_happened_is_found(
    group_found: dict[str, Any], case: str
) -> None:
    assert group_found[case] == GROUP_CASES[case][1]


_SWAPPED = [(0, 1, 0, 5), (1, 0, 1, 6)]
DIRECT = "those that go to instances directly as well"
REST_CASES: dict[str, tuple[list[tuple[int, int, int, int]], list[int]]] = {
    # seq, offset, sent, acknowledged
    "requests in flight at once may swap": (_SWAPPED, []),
    DIRECT: (_SWAPPED, []),
    "a request after the answer to another lies behind it": ([(0, 1, 0, 1), (1, 0, 2, 3)], [1]),
    "the records of one request keep their order": ([(0, 1, 0, 5), (1, 0, 0, 5)], [0]),
}


@pytest.fixture(scope="module")
def rest_found(spark: SparkSession) -> dict[str, Any]:
    rest: Row = {"via": "rest", "instance": "h:8082"}
    ledger, records = [], []
    for n, (case, (numbers, _)) in enumerate(REST_CASES.items()):
        via = {"via": "rest_instance"} if case == DIRECT else {}
        for seq, offset, at, acked in numbers:
            times = {"sent_us": us(at), "acked_us": us(acked)}
            ledger += of_case([sent(seq, offset=offset) | times | rest | via], n)
            records += of_case([held(seq, offset=offset)], n)
    found = evidence(spark, run_of(REST_CASES), ledger=ledger, records=records)
    return by_case(reordered(found, topic_hop(found)), REST_CASES, "seq", "topic")


@pytest.mark.parametrize("case", REST_CASES)
def test_by_rest_order_is_judged_as_far_as_the_interface_promises_it(
    rest_found: dict[str, Any], case: str
) -> None:
    expected = REST_CASES[case][1]
    assert rest_found[case] == ({"reordered": expected} if expected else {})


def test_records_before_the_log_start_are_unknown_not_lost(spark: SparkSession) -> None:
    about = run(topic={"log_start_offsets": {"0": 2, "1": 0}})
    result = delivery.check(
        evidence(spark, about, ledger=all_sent(), records=all_held(0, 1), deliveries=map(got, FIVE)), Levels()
    )
    assert result.verdict == "unknown"
    assert result.measured["expired"] == 2
    assert "retention" in result.because


def test_records_missing_from_a_compacted_topic_are_unknown_not_lost(spark: SparkSession) -> None:
    about = run(topic={"cleanup_policy": "compact"}, groups={})
    result = delivery.check(evidence(spark, about, ledger=all_sent(), records=all_held(3)), Levels())
    assert (result.verdict, result.measured["compacted"], result.measured["lost"]) == ("unknown", 1, 0)


def test_records_past_a_cut_ledger_are_unknown_not_unexpected(spark: SparkSession) -> None:
    about = run(ended_us=None)
    result = delivery.check(
        evidence(spark, about, ledger=all_sent()[:3], records=all_held(), deliveries=map(got, range(4))),
        Levels(),
    )
    assert result.verdict == "unknown"
    assert result.measured["beyond_ledger"] == 2
    assert result.measured["undelivered"] == 0


def test_without_records_nothing_is_judged(spark: SparkSession) -> None:
    assert delivery.check(evidence(spark, ledger=all_sent()), Levels()).verdict == "unknown"


def test_rows_that_a_ledger_lacks_are_unknown_and_their_records_not_unexpected(spark: SparkSession) -> None:
    about = run(producers={"0": {"via": "kafka", "topic": "t", "records": 5}})
    tables = {"records": all_held(extra=[held(77)]), "deliveries": [got(n) for n in (*FIVE, 77)]}
    rows = [sent(0), sent(2)]
    result = delivery.check(evidence(spark, about, ledger=rows, **tables), Levels())
    assert [dict(one) for one in result.anomalies["unledgered"].examples] == [
        {"producer": 0, "seq": 1, "until_seq": 1},
        {"producer": 0, "seq": 3, "until_seq": 4},
    ]
    assert result.anomalies["unledgered"].count == 3
    assert [one["seq"] for one in result.anomalies["unexpected"].examples] == [77]
    assert result.measured["beyond_ledger"] == 3
    allowed = Levels.model_validate({"delivery": {"unexpected": 1}})
    again = delivery.check(evidence(spark, about, ledger=rows, **tables), allowed)
    assert again.verdict == "unknown"
    assert "the ledger lacks 3 rows" in again.because


def test_a_hole_of_a_ledger_is_one_however_blocks_cut_it(spark: SparkSession) -> None:
    size = 1 << BLOCK_BITS
    about = run(producers={"0": {"via": "kafka", "topic": "t", "records": 4 * size}})
    rows = [sent(n) for n in (0, 2, size - 1, 3 * size + 1)]
    found = unledgered(evidence(spark, about, ledger=rows))["unledgered"]
    assert [(one["seq"], one["until_seq"]) for one in found.examples] == [
        (1, 1),
        (3, size - 2),
        (size, 3 * size),
        (3 * size + 2, 4 * size - 1),
    ]
    assert found.count == 4 * size - len(rows)


def test_of_a_ledger_that_lacks_a_row_one_block_is_sorted(spark: SparkSession) -> None:
    blocks, size = 4, 1 << BLOCK_BITS
    about = run(producers={"0": {"via": "kafka", "topic": "t", "records": blocks * size}})
    found = evidence(spark, about, ledger=[sent(0)])
    sequence = spark.range(blocks * size).where(f"id != {size + 7}")
    # Of a size that Spark does not know, as a large one's: of a small ledger it shuffles the totals more often.
    one = spark.createDataFrame(found.need("ledger").collect(), TABLES["ledger"]).coalesce(1)
    ledger = one.drop("seq").crossJoin(sequence.withColumnRenamed("id", "seq"))
    found = replace(found, tables={**found.tables, "ledger": ledger})
    ledger_totals(found)
    with shuffled(spark) as rows:
        lacking = unledgered(found)["unledgered"]
    assert [(one["seq"], one["until_seq"]) for one in lacking.examples] == [(size + 7, size + 7)]
    assert rows.value <= size + 10


JUMPS: dict[str, tuple[int, int, int]] = {
    # From an offset, to an offset, and how many of those that lie between were not delivered.
    "over a hole": (3, 6, 2),
    "over two": (3, 9, 3),
    "over nothing that lacks": (8, 10, 0),
    "to the next": (20, 21, 0),
}


def test_a_jump_is_told_with_what_lies_between_its_ends(spark: SparkSession) -> None:
    places = [(name, "c", "t", 0, 5, before, first) for name, (before, first, _) in JUMPS.items()]
    columns = "group string, consumer string, topic string, partition int, first_order long"
    positions = local_rows(spark, places, f"{columns}, before_value long, first_value long")
    lacking = [(name, "t", partition, offset) for name in JUMPS for partition, offset in
               ((0, 4), (0, 5), (0, 8), (0, 30), (1, 9))]  # fmt: skip
    undelivered = local_rows(spark, lacking, "group string, topic string, partition int, offset long")
    found = skipped(positions, undelivered)
    assert {row["group"]: row["undelivered"] for row in found.collect()} == {
        name: count for name, (_, _, count) in JUMPS.items() if count
    }
    # Jumps and holes of one partition are not brought together each with each.
    assert "Join" not in found._jdf.queryExecution().optimizedPlan().toString()


def test_of_many_findings_a_task_passes_on_the_few_that_may_be_shown(spark: SparkSession) -> None:
    found = spark.range(0, 200_000, 1, 8).selectExpr(
        "if(id % 2 = 0, 'lost', 'misplaced') as kind", "id as seq"
    )
    with shuffled(spark) as rows:
        counted = tally(found, ["seq"])
    assert {kind: one.count for kind, one in counted.items()} == {"lost": 100_000, "misplaced": 100_000}
    assert [one["seq"] for one in counted["misplaced"].examples] == [*range(1, 21, 2)]
    # Eight tasks, each with ten of two kinds, and its two counts.
    assert rows.value <= 8 * 2 * (examples() + 1)


def test_a_level_allows_what_it_says(spark: SparkSession) -> None:
    delivered = [got(n) for n in FIVE if n != 3]
    tables = evidence(spark, ledger=all_sent(), records=all_held(3), deliveries=delivered)
    strict = delivery.check(tables, Levels())
    assert strict.verdict == "fail"
    assert "1 lost (first: producer 0, seq 3, topic t, partition 0, offset 3)" in strict.because
    lax = delivery.check(tables, Levels.model_validate({"delivery": {"lost": 1}}))
    assert lax.verdict == "pass"


def test_thousands_of_partitions_and_producers_are_no_deep_plan(spark: SparkSession) -> None:
    """What is said of each of them is joined: an expression with a branch for each overflows Spark's stack."""
    count = 4_000
    every = [str(number) for number in range(count)]
    about = run(
        topic={
            "partitions": count,
            "start_offsets": dict.fromkeys(every, 0),
            "end_offsets": dict.fromkeys(every, 1_000),
            "log_start_offsets": dict.fromkeys(every, 1),
        },
        producers={n: {"via": "kafka", "topic": "t", "records": 5 * (n in "01")} for n in every},
        groups={},
    )
    beyond = [held(n, producer=1, partition=1) for n in (3, 4, 5)]
    # The last two of one producer's ledger lack, and the topic has a record that it never sent.
    ledger = [*all_sent(), *(sent(n, producer=1, partition=1) for n in range(3))]
    found = evidence(
        spark, about, ledger=ledger, records=[*all_held(0, 3), held(2, producer=1, partition=1), *beyond]
    )
    result = delivery.check(found, Levels())
    measured = {
        name: result.measured[name]
        for name in ("expired", "lost", "beyond_ledger", "unexpected", "unledgered")
    }
    # Of either producer's first record retention took the place.
    assert measured == {"expired": 2, "lost": 2, "beyond_ledger": 2, "unexpected": 1, "unledgered": 2}
