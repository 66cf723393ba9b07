"""Rates, latencies and what restarts cost, on rows that can be checked by eye."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kedge.evidence.levels import Levels
from spark_checks.checks import latency, partitions, throughput, zombies
from spark_checks.delivery import check as delivery
from spark_checks.delivery.producer_to_topic import topic_hop
from spark_checks.engine.facts import ledger_by
from spark_checks.rebalance import check as rebalance
from spark_checks.rebalance.restarts import find_restarts
from spark_checks.results import compose, judge
from tests.spark.frames import Row, collecting, evidence, got, held, many, run, sent, unsure, us

pytestmark = pytest.mark.spark


def levels(**parts: Any) -> Levels:
    return Levels.model_validate(parts)


def steady(per_s: int = 4, until: float = 10, without: tuple[float, float] = (99, 99)) -> list[Row]:
    """Ledger rows at a fixed rate, acknowledged after 0.1 s; none in the given time."""
    times = [n / per_s for n in range(int(until * per_s))]
    kept = [at for at in times if not without[0] <= at < without[1]]
    return [sent(n, intended_us=us(at), sent_us=us(at), acked_us=us(at + 0.1)) for n, at in enumerate(kept)]


def did(action: str, begin: float, end: float, instance: str = "8082", ok: bool = True) -> Row:
    return {
        "host": "rest1",
        "service": "kafka-rest",
        "instance": instance,
        "action": action,
        "started_us": us(begin),
        "ended_us": us(end),
        "ok": ok,
    }


RESTART = [did("stop", 4, 4.2), did("start", 4.2, 4.5), did("ready", 4.5, 6)]


def test_one_failed_check_fails_and_one_unknown_does_not_pass() -> None:
    assert compose(["pass", "unknown", "fail"]) == "fail"
    assert compose(["pass", "unknown"]) == "unknown"
    assert compose(["pass", "pass"]) == "pass"
    assert compose([]) == "unknown"
    assert judge([], ["d"], "fine", judged=True) == ("unknown", "d")


def test_what_is_collected_does_not_grow_with_records(spark: SparkSession) -> None:
    """As many producers and partitions that hardly two records have both and their second in common."""
    count, many_of = 400_000, 200
    about = run(
        topic={"partitions": many_of, "start_offsets": dict.fromkeys(map(str, range(many_of)), 0)},
        producers={str(one): {"via": "kafka", "topic": "t"} for one in range(many_of)},
    )
    # Each producer goes round the partitions, beginning with its own.
    columns = {"producer": f"n % {many_of}", "seq": f"n div {many_of}"}
    columns |= {"partition": f"(n + n div {many_of}) % {many_of}", "offset": f"n div {many_of}"}
    at = f"{us(1)} + (n * 7919) % 9000000"
    ledger = columns | {"intended_us": at, "sent_us": at, "acked_us": at}
    records = columns | {"intended_us": at, "timestamp_us": at}
    whole = evidence(spark, about, ledger=[], records=[])
    tables = {
        "ledger": many(spark, "ledger", sent(0), count, **ledger),
        "records": many(spark, "records", held(0) | {"crc": 100}, count, **records),
    }
    whole = replace(whole, tables={**whole.tables, **tables})
    with collecting(spark, "16m"):
        assert ledger_by(whole, "producer", "block", "outcome").count() == many_of
        assert topic_hop(whole).totals["records"] == count
        assert throughput.check(whole, levels()).measured["kafka"]["mean_records_per_s"] == round(
            count / 9, 1
        )
        assert partitions.check(whole, levels()).measured["t"]["partitions"] == many_of


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("count", "most", "broadcast"),
    [
        # What Spark broadcasts by its own choice is collected too; here it chooses none, and what is left is
        # what the audit asks for.
        pytest.param(60_000, "1500k", "-1", marks=pytest.mark.long),
        pytest.param(250_000, "64m", "10m", marks=pytest.mark.long),
    ],
)
def test_what_is_collected_does_not_grow_with_faults(
    spark: SparkSession, count: int, most: str, broadcast: str
) -> None:
    """Four faults a record: it is found twice, where it was not acknowledged; of the two its group got one, twice.

    In its partition many stand in an order in which they were not sent.
    """
    many_of = 200
    about = run(
        topic={"partitions": many_of, "start_offsets": dict.fromkeys(map(str, range(many_of)), 0)},
        producers={str(one): {"via": "kafka", "topic": "t"} for one in range(many_of)},
    )
    # Each producer goes round the partitions, beginning with its own.
    columns = {"producer": f"n % {many_of}", "seq": f"n div {many_of}"}
    columns |= {"partition": f"(n + n div {many_of}) % {many_of}", "offset": f"{count} - n div {many_of}"}
    at = f"{us(1)} + (n * 7919) % 9000000"
    ledger = columns | {"intended_us": at, "sent_us": at, "acked_us": at}
    records = columns | {"intended_us": at, "timestamp_us": at}
    deliveries = columns | {"intended_us": at, "received_us": f"{at} + 1000"}
    copies = {"offset": f"{2 * count} - n div {many_of}"}
    held_by = {"group": "g", "consumer": "c", "topic": "t", "event": "assigned", "at_us": us(0)}
    whole = evidence(
        spark,
        about,
        ledger=[],
        records=[],
        actions=RESTART,
        assignments=[held_by | {"partition": number} for number in range(many_of)],
    )

    def twice(table: str, row: Row, made: dict[str, str], other: dict[str, str]) -> DataFrame:
        return many(spark, table, row, count, **made).union(many(spark, table, row, count, **made | other))

    tables = {
        "ledger": many(spark, "ledger", sent(0), count, **ledger | {"offset": f"{3 * count} + n"}),
        "records": twice("records", held(0) | {"crc": 100}, records, copies),
        "deliveries": twice("deliveries", got(0), deliveries, {"received_us": f"{at} + 2000"}),
    }
    whole = replace(whole, tables={**whole.tables, **tables})
    with collecting(spark, most, broadcast) as rows:
        assert ledger_by(whole, "producer", "block", "outcome").count() == many_of
        found = delivery.check(whole, levels())
        assert {
            found.measured[kind] for kind in ("duplicated", "misplaced", "undelivered", "redelivered")
        } == {count}
        assert found.measured["reordered"] > count // 4
        assert throughput.check(whole, levels()).measured["kafka"]["mean_records_per_s"] == round(
            count / 9, 1
        )
        assert latency.check(whole, levels()).measured["kafka"]["ack_records"] == count
        assert partitions.check(whole, levels()).measured["t"]["partitions"] == many_of
        assert rebalance.check(whole, levels()).measured["restarts"] == 1
        assert zombies.check(whole, levels()).measured["zombies"] == 0
    # Seconds, partitions, and times of three digits.
    assert max(rows) < 10_000


def test_a_rate_met_over_the_window_passes(spark: SparkSession) -> None:
    result = throughput.check(
        evidence(spark, ledger=steady()), levels(throughput={"kafka": {"records_per_s": 4}})
    )
    assert result.verdict == "pass"
    figures = result.measured["kafka"]
    assert (figures["mean_records_per_s"], figures["sustained_p5_records_per_s"]) == (4, 4)
    assert figures["mean_bytes_per_s"] == 400


def test_a_rate_not_met_fails_and_one_that_was_not_offered_is_unknown(spark: SparkSession) -> None:
    refused = [unsure(100 + n) | {"intended_us": us(2 + n / 10)} for n in range(40)]
    level = levels(throughput={"kafka": {"records_per_s": 6}})
    assert throughput.check(evidence(spark, ledger=steady() + refused), level).verdict == "fail"
    assert throughput.check(evidence(spark, ledger=steady()), level).verdict == "unknown"


def test_an_empty_second_fails_unless_a_restart_explains_it(spark: SparkSession) -> None:
    rows = steady(per_s=10, without=(3.9, 6))
    level = levels(throughput={"kafka": {"records_per_s": 1}})
    alone = throughput.check(evidence(spark, ledger=rows), level)
    assert alone.verdict == "fail"
    assert [one["second"] for one in alone.anomalies["empty_second"].examples] == [3, 4]
    assert throughput.check(evidence(spark, ledger=rows, actions=RESTART), level).verdict == "pass"


def test_instances_that_are_sent_to_directly_have_rates_and_no_empty_seconds(spark: SparkSession) -> None:
    about = run(producers={"0": {"via": "kafka", "topic": "t"}, "1": {"via": "rest_instance", "topic": "t"}})
    direct = {"producer": 1, "via": "rest_instance", "instance": "r1:8082"}
    rows = [*steady(), *(sent(n, intended_us=us(5 * n), acked_us=us(5 * n)) | direct for n in range(2))]
    result = throughput.check(evidence(spark, about, ledger=rows), levels())
    assert result.measured["rest_instance"]["by_instance_records_per_s"].keys() == {"r1:8082"}
    assert "empty_second" not in result.anomalies
    assert [figure.what for figure in result.figures] == ["kafka"]


def test_what_has_no_level_is_measured_and_does_not_pass(spark: SparkSession) -> None:
    tables = evidence(spark, ledger=steady(), actions=RESTART)
    found = {
        check.__module__: check(tables, levels())
        for check in (throughput.check, latency.check, rebalance.check)
    }
    for result in found.values():
        assert result.verdict == "measured"
        assert result.because.startswith("no level given; ")
        assert {figure.verdict for figure in result.figures} == {"measured"}
    # Of two interfaces that one has a level of does not judge the other.
    rest = levels(throughput={"rest": {"records_per_s": 4}})
    (kafka,) = throughput.check(evidence(spark, ledger=steady()), rest).figures
    assert (kafka.what, kafka.verdict) == ("kafka", "measured")


def test_figures_tell_what_their_check_tells(spark: SparkSession) -> None:
    given = levels(
        throughput={"kafka": {"records_per_s": 5}},
        latency={"kafka": {"ack_p99_ms": 1e6, "delivery_p99_ms": 1}},
        rebalance={"produce_gap_s": 0.1, "min_restarts": 2, "ownerless_s": 1},
    )
    tables = evidence(spark, ledger=steady(), actions=RESTART)
    found = {f.key: f.verdict for check in (throughput.check, latency.check, rebalance.check)
             for f in check(tables, given).figures if f.level is not None}  # fmt: skip
    assert found == {
        "throughput.kafka.records_per_s": "unknown",  # no more were offered
        "latency.kafka.ack_p99_ms": "pass",
        "latency.kafka.delivery_p99_ms": "unknown",
        "rebalance.min_restarts": "unknown",
        "rebalance.produce_gap_s": "fail",
        "rebalance.ownerless_s": "unknown",
    }


def test_latency_counts_from_the_intended_time_and_drops_the_warm_up(spark: SparkSession) -> None:
    slow = sent(0, intended_us=us(0.5), sent_us=us(8), acked_us=us(9))
    rows = [sent(n, intended_us=us(1 + n / 100), acked_us=us(1 + n / 50)) for n in range(1, 101)]
    tables = {
        "records": [
            held(n, intended_us=us(1 + n / 100), timestamp_us=us(1 + n / 100 + 0.002)) for n in range(1, 101)
        ],
        "deliveries": [
            got(n, intended_us=us(1 + n / 100), received_us=us(1 + n / 100 + 3)) for n in range(1, 101)
        ],
    }
    # The second reception of a record is not its delivery.
    tables["deliveries"].append(got(1, intended_us=us(1.01), received_us=us(9)))
    result = latency.check(
        evidence(spark, None, ledger=[slow, *rows], **tables),
        levels(latency={"kafka": {"ack_p99_ms": 990, "delivery_max_ms": 2999}}),
    )
    figures = result.measured["kafka"]
    assert (figures["ack_records"], figures["ack_p50_ms"], figures["ack_p99_ms"]) == (100, 500, 990)
    assert figures["ack_max_ms"] == 1000
    assert (figures["append_p50_ms"], figures["delivery_max_ms"]) == (2, 3000)
    assert result.verdict == "fail"
    assert "delivery_max_ms" in result.because
    assert "ack_p99_ms" not in result.because
    timeline = result.series["by_second"]["kafka"]
    assert [(p50, p99) for _, p50, p99 in timeline] == [(500, 990), (1000, 1000)]


def test_a_level_within_the_clock_error_and_one_without_evidence_are_unknown(spark: SparkSession) -> None:
    about = run(clock_offsets={"h": {"offset_us": 0, "error_us": 5000}})
    tables = {
        "ledger": steady(),
        "deliveries": [got(n, intended_us=us(n / 4), received_us=us(n / 4 + 0.2)) for n in range(40)],
    }
    near = levels(latency={"kafka": {"delivery_max_ms": 198}})
    assert latency.check(evidence(spark, about, **tables), near).verdict == "unknown"
    no_append = levels(latency={"kafka": {"append_p99_ms": 100}})
    assert latency.check(evidence(spark, ledger=steady()), no_append).verdict == "unknown"


def test_restarts_are_paired_by_instance_and_a_drain_begins_them() -> None:
    actions = [
        did("drain", 1, 2),
        did("stop", 2, 3),
        did("kill", 2.5, 2.6, instance="8083"),
        did("ready", 4, 5, ok=False),
        did("ready", 5, 6),
    ]
    first, second = find_restarts(actions, us(10))
    assert (first.instance, first.begin_us, first.end_us) == ("8082", us(1), us(6))
    assert first.until_us == us(2.5)
    assert (second.instance, second.end_us, second.until_us) == ("8083", None, us(10))


@pytest.fixture(scope="module")
def disturbed(spark: SparkSession) -> Any:
    """Two seconds without acknowledgements, three without deliveries, in one restart of a 10 s run."""
    ledger = steady(per_s=50, without=(4, 6))
    delivered = [
        got(row["seq"], received_us=row["acked_us"] + (0 if row["intended_us"] < us(6) else 1_000_000))
        for row in ledger
    ]
    samples = [
        {"group": "g", "at_us": us(n / 10), "state": "Stable", "members": 1, "assigned": 1}
        | ({"state": "PreparingRebalance"} if 42 <= n < 57 else {})
        for n in range(100)
    ]
    owned = [("assigned", 0.0), ("revoked", 4.2), ("assigned", 5.7)]
    assignments = [
        {"group": "g", "consumer": "c", "topic": "t", "partition": 0, "event": event, "at_us": us(at)}
        for event, at in owned
    ]
    level = {"produce_gap_s": 5, "consume_stall_s": 0.5, "not_stable_s": 15, "min_restarts": 1}
    return rebalance.check(
        evidence(
            spark,
            ledger=ledger,
            deliveries=delivered,
            group_states=samples,
            assignments=assignments,
            actions=RESTART,
        ),
        levels(rebalance=level),
    )


def test_a_restart_is_measured_and_the_measure_over_its_level_fails(disturbed: Any) -> None:
    assert disturbed.verdict == "fail"
    assert disturbed.because.startswith("delivery gap 1.00 s at rest1 8082, the level is 0.5 s")
    (restart,) = disturbed.measured["by_restart"]
    assert restart["produce_gap_s"] == pytest.approx(2.02, abs=0.001)
    # Three seconds without a delivery, of which two had nothing to deliver.
    assert restart["consume_stall_s"] == pytest.approx(1.0, abs=0.001)
    assert restart["not_stable_s"] == pytest.approx(1.5, abs=0.001)
    assert restart["ownerless_s"] == pytest.approx(1.5, abs=0.001)
    assert disturbed.measured["produce_gap_outside_of_restarts_s"] == {"kafka": 0.02}


def test_what_a_partition_waits_outside_of_restarts_is_more_than_what_all_wait(spark: SparkSession) -> None:
    ledger = [row | {"partition": n % 2} for n, row in enumerate(steady(per_s=50))]
    found = rebalance.check(evidence(spark, ledger=ledger, actions=RESTART), levels(rebalance={}))
    assert found.measured["produce_gap_outside_of_restarts_s"] == {"kafka": 0.04}


def test_lag_is_back_when_it_falls_to_its_baseline(disturbed: Any) -> None:
    (restart,) = disturbed.measured["by_restart"]
    cell = restart["by"]["g"]
    assert cell["lag_highest_records"] == pytest.approx(50, abs=5)
    assert not cell["lag_back"]


def test_without_actions_nothing_is_known_of_restarts(spark: SparkSession) -> None:
    tables = evidence(spark, ledger=steady())
    assert rebalance.check(tables, levels(rebalance={"min_restarts": 4})).verdict == "unknown"
    assert rebalance.check(tables, levels()).verdict == "unknown"
    assert rebalance.check(tables, levels(rebalance={"min_restarts": 0})).verdict == "pass"


def test_a_restart_by_hand_is_named_and_one_that_was_announced_is_not(spark: SparkSession) -> None:
    def sampled(instance: str, at: float, cpu_s: float) -> Row:
        who = {"host": "rest1", "service": "kafka-rest", "instance": instance, "at_us": us(at)}
        return who | {"cpu_us": int(cpu_s * 1e6), "rss_bytes": 1, "fds": 1}

    announced = [sampled("8082", 3, 40), sampled("8082", 6, 2)]
    by_hand = [sampled("8083", 3, 40), sampled("8083", 4, 41), sampled("8083", 6, 2), sampled("8083", 7, 3)]
    found = rebalance.check(
        evidence(spark, ledger=steady(), actions=RESTART, processes=announced + by_hand), levels()
    ).anomalies
    assert found["unannounced_restart"].examples == (
        {"host": "rest1", "service": "kafka-rest", "instance": "8083", "from_us": us(4), "until_us": us(6)},
    )
    alone = rebalance.check(evidence(spark, ledger=steady(), processes=announced), levels())
    assert alone.verdict == "unknown"
    assert alone.anomalies["unannounced_restart"].count == 1


def test_a_restart_after_the_load_is_left_out_and_named(spark: SparkSession) -> None:
    late = [did("kill", 12, 12.1, "8083"), did("ready", 12.1, 13, "8083")]
    asked = levels(rebalance={"min_restarts": 2, "produce_gap_s": 5})
    result = rebalance.check(evidence(spark, ledger=steady(), actions=RESTART + late), asked)
    assert result.verdict == "unknown"
    said = "1 restarts, the run must hold 2; 1 more began or ended after the load: raise verify.max_s"
    assert result.because == said
    assert [row["instance"] for row in result.measured["by_restart"]] == ["rest1 8082"]
    (named,) = result.anomalies["after_load"].examples
    assert named == {"instance": "rest1 8083", "from_us": us(12), "until_us": us(13)}
    one = levels(rebalance={"min_restarts": 1, "produce_gap_s": 5})
    assert rebalance.check(evidence(spark, ledger=steady(), actions=RESTART + late), one).verdict == "pass"
    alone = rebalance.check(evidence(spark, ledger=steady(), actions=late), levels())
    assert (alone.verdict, alone.measured["restarts"]) == ("unknown", 0)
    assert alone.because.endswith("the load had ended before rest1 8083 was restarted, the first of 1")
    lost = rebalance.check(evidence(spark, ledger=steady(), actions=late[:1]), levels())
    assert (lost.verdict, lost.because.split(";")[0]) == ("fail", "rest1 8083 did not become ready again")


def test_a_restart_that_the_load_does_not_outlast_fails_or_is_unknown(spark: SparkSession) -> None:
    astride = [did("drain", 8, 8.5), did("stop", 8.5, 9), did("start", 9, 10), did("ready", 10, 12)]
    tables = evidence(spark, ledger=steady(per_s=50, until=8), actions=astride)
    asked = levels(rebalance={"min_restarts": 1, "produce_gap_s": 5})
    result = rebalance.check(tables, asked)
    assert result.verdict == "unknown"
    assert result.because == (
        "produce gap: the load ended before rest1 8082 was ready; "
        "0 restarts, the run must hold 1; 1 more began or ended after the load: raise verify.max_s"
    )
    assert {figure.verdict for figure in result.figures if figure.level is not None} == {"unknown"}
    assert result.anomalies["outlasted_load"].count == 1
    # Two seconds without an acknowledgement are seen before the load ends.
    assert rebalance.check(tables, levels(rebalance={"produce_gap_s": 1})).verdict == "fail"


def test_an_instance_that_did_not_come_back_fails(spark: SparkSession) -> None:
    tables = evidence(spark, ledger=steady(), actions=RESTART[:2])
    result = rebalance.check(tables, levels())
    assert result.verdict == "fail"
    assert "rest1 8082 did not become ready again" in result.because
