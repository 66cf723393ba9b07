"""What a measurement of partitions says: where the curve stops, what stopped it, what the plan makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.services.planning import make_plan
from kedge.services.topics.rates import Use, limited_by, median_and_spread, stops_at
from tests.planned import findings, of_topics

MEASURED: dict[str, Any] = {
    "cluster": "leaf",
    "record_bytes": 1000,
    "codec": "none",
    "acks": "all",
    "replication": 3,
    "production_mb_per_s": 10.0,
    "production_spread": 0.04,
    "consumption_mb_per_s": 25.0,
    "run": "measure-1",
}
CEILING = {"production_ceiling_mb_per_s": 38.0, "production_stops_at": 4}


def use(role: str = "broker", **shares: Any) -> Use:
    return Use(
        **({"host": "b1", "role": role, "machine": role, "cpu": 0.2, "disk": 0.1, "network": 0.1} | shares)
    )


def test_the_spread_is_the_range_over_the_median() -> None:
    assert median_and_spread([9.0, 10.0, 12.0]) == (10.0, pytest.approx(0.3))


@pytest.mark.parametrize(
    ("curve", "spread", "stops"),
    [
        ({1: 10, 2: 20, 4: 40, 8: 80}, 0.0, None),
        ({1: 10, 2: 19, 4: 20, 8: 20}, 0.0, 2),
        ({1: 10, 2: 10.5, 4: 9}, 0.0, 1),
        ({1: 10, 2: 12, 4: 12}, 0.3, 1),  # what lies within the spread is no growth
        ({1: 10, 2: 9, 4: 13, 8: 13}, 0.0, 4),
        ({1: 10}, 0.0, None),
    ],
)
def test_the_curve_stops_where_more_partitions_give_no_more(
    curve: dict[int, float], spread: float, stops: int | None
) -> None:
    assert stops_at(curve, spread) == stops


@pytest.mark.parametrize(
    ("uses", "busy", "copies", "limit"),
    [
        ([use(cpu=0.95)], 0.5, None, "CPU (b1: 95%)"),
        ([use(cpu=0.95, machine="m"), use("clients", machine="m")], 0.5, None, "CPU (brokers and clients"),
        ([use(disk=0.9)], 0.5, None, "disk"),
        ([use(network=0.85)], 0.5, None, "network"),
        ([use()], 0.97, 3.0, "clients"),
        ([use(), use("clients", cpu=0.99)], 0.4, None, "clients"),
        ([use()], 0.5, 1.6, "replication (acks=1 is 1.60 times as fast)"),
        ([use(network=None)], 0.5, 1.05, "none of CPU, disk, network and replication"),
        ([use("clients", cpu=0.3)], 0.5, None, "not known"),
    ],
)
def test_what_is_used_up_is_named(uses: list[Use], busy: float, copies: float | None, limit: str) -> None:
    assert limited_by(uses, busy, copies).startswith(limit)


def planned(topic: dict[str, Any], *rates: dict[str, Any]) -> Any:
    plan = make_plan(of_topics(topic, kafka_partition_rates=list(rates)))
    assert not plan.has_errors, plan.findings
    return next(s for s in plan.topics["leaf"]["t0"] if s.key == "partitions")


def test_measured_rates_are_planned_with_by_the_formula() -> None:
    setting = planned({"target_mb_per_s": 36, "growth": 1.5}, MEASURED)
    assert setting.value == "6"  # max(36 / 10, 36 / 25) x 1.5 = 5.4
    assert setting.because == "max(36 / 10, 36 / 25) MB/s x growth 1.5 = 5.40, rounded up"
    assert setting.source.endswith("measured by measure-1")
    assert setting.basis == "measured"


def test_a_topics_own_rates_win_over_measured_ones() -> None:
    own = {"target_mb_per_s": 36, "production_mb_per_s": 36, "consumption_mb_per_s": 36}
    assert planned(own, MEASURED).value == "1"


def test_the_measurement_most_like_the_topic_counts() -> None:
    small = MEASURED | {"record_bytes": 100, "production_mb_per_s": 2.0, "run": "small"}
    packed = MEASURED | {"codec": "lz4", "production_mb_per_s": 40.0, "run": "packed"}
    every = (MEASURED, small, packed)
    assert planned({"target_mb_per_s": 20, "record_bytes": 120}, *every).source.endswith("small")
    assert planned({"target_mb_per_s": 20, "codec": "lz4"}, *every).source.endswith("packed")
    assert planned({"target_mb_per_s": 20}, *every).source.endswith(
        "small"
    )  # the slowest, where it says nothing


def test_a_target_that_no_partition_count_reaches_is_an_error_that_says_why() -> None:
    limited = MEASURED | CEILING | {"production_limited_by": "CPU (b1: 97%)"}
    inventory = of_topics({"target_mb_per_s": 100}, kafka_partition_rates=[limited])
    (error,) = findings(inventory, "topics.ceiling")
    assert error.severity == "error"
    assert "no number of partitions gives topic t0 its 100 MB/s" in error.message
    assert "stops at 38 MB/s with 4 partitions, limited by CPU (b1: 97%)" in error.message
    assert "lower target_mb_per_s to 38" in error.fix


@pytest.mark.parametrize(
    ("target", "growth", "limit", "severity"),
    [
        (30, 1.0, "CPU (b1: 97%)", None),
        (30, 2.0, "CPU (b1: 97%)", "warning"),
        (100, 1.0, "clients (their machine's CPU 99%)", "warning"),
    ],
)
def test_a_ceiling_of_the_clients_or_of_growth_alone_is_a_warning(
    target: float, growth: float, limit: str, severity: str | None
) -> None:
    rates = MEASURED | CEILING | {"production_limited_by": limit}
    found = findings(
        of_topics({"target_mb_per_s": target, "growth": growth}, kafka_partition_rates=[rates]),
        "topics.ceiling",
    )
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_records_of_another_size_and_a_wide_spread_are_said() -> None:
    topic = {"target_mb_per_s": 20, "record_bytes": 100_000}
    found = findings(
        of_topics(topic, kafka_partition_rates=[MEASURED | {"consumption_spread": 0.4}]), "topics.rates"
    )
    assert [f.severity for f in found] == ["warning", "note"]
    assert "--record-bytes 100000" in found[0].fix
    assert "40% apart" in found[1].message


def test_a_target_without_a_fitting_measurement_says_how_to_measure() -> None:
    (error,) = findings(
        of_topics({"target_mb_per_s": 20, "codec": "zstd"}, kafka_partition_rates=[MEASURED]), "topics.rates"
    )
    assert error.severity == "error"
    assert "kedge measure --cluster leaf --codec zstd" in error.fix


def test_a_measurement_that_was_edited_wrongly_is_named() -> None:
    wrong = findings(
        of_topics({"partitions": 1}, kafka_partition_rates=[MEASURED | {"production_mb_per_s": 0}])
    )
    assert [f.where for f in wrong if f.severity == "error"] == [
        "all: kafka_partition_rates[0].production_mb_per_s"
    ]
