"""What hosts were measured to carry takes the place of what others' hosts did, and says what is left."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.plan.findings import Finding
from kedge.services.planning import make_plan
from tests.rest_inventories import rest

#: Two hosts of 16 cores with two instances each: 100,000 records/s together, 50,000 a host, 25,000 an instance.
MEASURED = {
    "run": "20261122T100000Z",
    "date": "2026-11-22",
    "distribution": "confluent",
    "version": "8.3.1",
    "cores": 16,
    "hosts": 2,
    "instances_per_host": 2,
    "records_per_request": 100,
    "record_bytes": 500,
    "records_per_s": 100_000,
    "one_away_records_per_s": 48_000,
}


def plan(rate: int, hosts: int = 2, measured: Any = MEASURED, **more: Any) -> Any:
    workload = {"records_per_s": rate, "records_per_request": 100, "record_bytes": 500}
    return make_plan(rest(hosts, workload, measured_capacity=measured, **more))


def findings(rate: int, hosts: int = 2, **more: Any) -> list[Finding]:
    found = [one for one in plan(rate, hosts, **more).findings if one.rule == "rest.capacity"]
    return sorted(found, key=lambda one: "healthy" not in one.message)


def test_headroom_is_said_healthy_and_with_one_host_away() -> None:
    """The workload of a host is what it carries while the other is away: 40,000 of both together."""
    healthy, away = findings(40_000)
    assert (healthy.severity, away.severity) == ("note", "note")
    assert "healthy 100,000 records/s are sustained (run 20261122T100000Z of 2026-11-22" in healthy.message
    assert "the workload is 40,000: 40% of it, 60,000 are left" in healthy.message
    assert "with one host down 48,000" in away.message
    assert "as measured" in away.message


def test_a_workload_that_one_host_less_does_not_carry_is_an_error() -> None:
    healthy, away = findings(49_000)
    assert (healthy.severity, away.severity) == ("note", "error")


def test_other_numbers_of_hosts_are_reckoned_from_what_one_does() -> None:
    healthy, away = findings(30_000, hosts=4)
    assert "healthy 200,000" in healthy.message
    assert "with one host down 150,000" in away.message
    assert "what a host of it does" in away.message


def test_instances_suffice_also_while_a_host_is_away() -> None:
    """An instance of those that stay carried 1,500 where it carries 2,000 healthy."""
    measured = {**MEASURED, "instances_per_host": 4, "records_per_s": 16_000, "one_away_records_per_s": 6000}
    assert len(plan(5000, measured=measured).services["rest1"]["kafka_rest"]) == 4
    assert [one.severity for one in findings(5000, measured=measured)] == ["note", "note"]


def test_what_carries_nothing_with_a_host_away_has_all_instances_and_is_an_error() -> None:
    measured = {**MEASURED, "one_away_records_per_s": 0}
    instances = plan(5000, measured=measured).services["rest1"]["kafka_rest"]
    assert len(instances) == MEASURED["instances_per_host"]
    assert [one.severity for one in findings(5000, measured=measured)] == ["note", "error"]


def test_what_fewer_instances_carry_is_less() -> None:
    """Of the two that were measured on each host one is planned."""
    healthy, away = findings(20_000, instances_per_host=1)
    assert "healthy 50,000 records/s are sustained by 2 of 4 processes" in healthy.message
    assert "with one host down 24,000" in away.message


def test_instances_follow_from_the_measurement_and_not_from_the_scaled_constant() -> None:
    def count(rate: int, measured: Any) -> int:
        inventory = plan(rate, measured=measured, groups={"streams_app": ("rest1", "rest2")})
        return len(inventory.services["rest1"]["kafka_rest"])

    few = {**MEASURED, "records_per_s": 40_000}
    assert count(9000, few) == 1
    assert count(11_000, few) == 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": "7.9.0"}, "it is of confluent 7.9.0, and confluent 8.3.1 is planned"),
        ({"distribution": "strimzi"}, "it is of strimzi 8.3.1"),
        ({"cores": 2}, "it is of hosts with 2 cores, and this one has 16"),
        ({"records_per_request": 10}, "it is of 10 records a request"),
        ({"record_bytes": 100}, "it is of 100 bytes a record, not 500"),
    ],
)
def test_a_measurement_of_something_else_is_refused_with_its_reason(change: dict[str, Any], why: str) -> None:
    found = findings(40_000, measured={**MEASURED, **change})
    assert {one.severity for one in found} == {"warning"}
    assert all(why in one.message for one in found)


def test_more_than_what_is_carried_at_least_is_no_error() -> None:
    found = findings(60_000, measured={**MEASURED, "at_least": True, "one_away_at_least": True})
    assert [one.severity for one in found] == ["note", "warning"]
    assert "at least 48,000" in found[1].message


def test_a_measurement_that_lacks_something_is_named() -> None:
    broken = {key: value for key, value in MEASURED.items() if key != "cores"}
    found = [one for one in plan(1000, measured=broken).findings if one.severity == "error"]
    assert any("kafka_rest_measured_capacity" in one.where for one in found)
