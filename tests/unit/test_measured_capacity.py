"""What mirrors and applications were measured to carry: their processes follow, and what is left is said."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.services.planning import make_plan
from tests.planned import findings, instances, mirrors, streams

#: Six processes on two hosts carried 60,000 records/s of 1,000 bytes, which is 60 MB/s.
FLOW: dict[str, Any] = {
    "run": "20261122T100000Z",
    "date": "2026-11-22",
    "flow": "metrics",
    "kind": "classic",
    "version": "3.9.2",
    "cores": 16,
    "hosts": 2,
    "processes": 6,
    "record_bytes": 1000,
    "records_per_s": 60_000,
    "one_away_records_per_s": 32_000,
}
APPLICATION: dict[str, Any] = {
    "run": "20261122T100000Z",
    "date": "2026-11-22",
    "name": "joins",
    "version": "4.3.1",
    "cores": 2,
    "hosts": 2,
    "instances_per_host": 1,
    "record_bytes": 6000,
    "records_per_s": 4000,
}


def of_flow(mb_per_s: float | None, measured: dict[str, Any] = FLOW, **more: Any) -> Inventory:
    return mirrors(
        flow={"mb_per_s": mb_per_s} if mb_per_s else None,
        measured_capacity=measured,
        common={"advice": "measured"},
        **more,
    )


def said(inventory: Inventory, rule: str) -> list[Finding]:
    return sorted(findings(inventory, rule), key=lambda one: "healthy" not in one.message)


@pytest.mark.parametrize(("mb_per_s", "count"), [(None, 6), (20, 4), (21, 6), (500, 6), (1, 2)])
def test_a_flow_has_the_processes_that_were_measured_to_carry_it(mb_per_s: float | None, count: int) -> None:
    """One host's processes carry it; never less than one a host, never more than were measured of 20."""
    plan = make_plan(of_flow(mb_per_s))
    assert sum(len(one) for one in instances(plan, "mirror_maker").values()) == count


def test_the_reason_of_the_processes_names_the_run() -> None:
    (note,) = findings(of_flow(20), "mirror.processes", "note")
    assert "6 carried 60,000 records/s in run 20261122T100000Z of 2026-11-22" in note.message


def test_a_flows_headroom_is_said_healthy_and_with_one_host_away() -> None:
    healthy, away = said(of_flow(30), "mirror.capacity")
    assert (healthy.severity, away.severity) == ("note", "note")
    assert "healthy 60,000 records/s are sustained" in healthy.message
    assert "the workload is 30,000: 50% of it, 30,000 are left" in healthy.message
    assert "with one host down 32,000" in away.message


def test_a_flow_that_one_host_less_does_not_carry_is_an_error() -> None:
    healthy, away = said(of_flow(40), "mirror.capacity")
    assert (healthy.severity, away.severity) == ("note", "error")
    assert "mirror_maker_flows.metrics.mb_per_s" in away.fix


def test_what_fewer_processes_carry_is_less() -> None:
    flow = {"mb_per_s": 25, "processes": 3}
    inventory = mirrors(flow=flow, measured_capacity=FLOW, common={"advice": "measured"})
    healthy, away = said(inventory, "mirror.capacity")
    assert "healthy 30,000 records/s are sustained by 3 of 6 processes" in healthy.message
    # One host has two of the three.
    assert "with one host down 10,667 records/s are sustained by 3 of 6 processes" in away.message
    assert (healthy.severity, away.severity) == ("note", "error")


@pytest.mark.parametrize(("at_least", "severity"), [(True, "warning"), (False, "error")])
def test_at_least_is_said_of_the_condition_of_which_it_is_true(at_least: bool, severity: str) -> None:
    measured = {**FLOW, "at_least": not at_least, "one_away_at_least": at_least}
    healthy, away = said(of_flow(40, measured), "mirror.capacity")
    assert ("at least" in healthy.message) is not at_least
    assert away.severity == severity


def test_what_does_not_suffice_while_an_instance_restarts_is_a_warning() -> None:
    measured = {**FLOW, "one_restarting_records_per_s": 25_000}
    found = said(of_flow(30, measured), "mirror.capacity")
    (restarting,) = [one for one in found if "while an instance restarts" in one.message]
    assert restarting.severity == "warning"
    assert "while an instance restarts 25,000 records/s are sustained" in restarting.message
    assert "as measured" in restarting.message
    # Of other hosts it says nothing.
    more = said(of_flow(30, measured, hosts=4), "mirror.capacity")
    assert not any("restarts" in one.message for one in more)


def test_a_search_that_did_not_close_is_said_to_be_one() -> None:
    for one in said(of_flow(30, {**FLOW, "closed": False}), "mirror.capacity"):
        assert "a search that did not close" in one.message


def test_more_hosts_have_as_many_more_processes() -> None:
    plan = make_plan(of_flow(90, hosts=4))
    assert sum(len(one) for one in instances(plan, "mirror_maker").values()) == 12
    healthy, away = said(of_flow(90, hosts=4), "mirror.capacity")
    assert "healthy 120,000" in healthy.message
    assert "with one host down 90,000" in away.message


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": "3.8.1"}, "it is of classic 3.8.1, and classic 3.9.2 is planned"),
        ({"kind": "mirror_maker_2"}, "it is of mirror_maker_2 3.9.2"),
        ({"cores": 4}, "it is of hosts with 4 cores, and this one has 16"),
        ({"flow": "logs"}, "it is of flow logs, and there are metrics"),
    ],
)
def test_a_measurement_of_another_flow_is_refused_with_its_reason(change: dict[str, Any], why: str) -> None:
    (warning,) = said(of_flow(30, {**FLOW, **change}), "mirror.capacity")
    assert warning.severity == "warning"
    assert why in warning.message


def test_workers_of_mirror_maker_2_stay_one_a_host_and_their_headroom_is_said() -> None:
    measured = {**FLOW, "kind": "mirror_maker_2", "version": "4.3.1", "processes": 2}
    inventory = of_flow(30, measured, kind="mirror_maker_2", version="4.3.1")
    assert sum(len(one) for one in instances(make_plan(inventory), "mirror_maker").values()) == 2
    assert [one.severity for one in said(inventory, "mirror.capacity")] == ["note", "note"]


def of_application(rate: float | None, **change: Any) -> list[Finding]:
    measured = {**APPLICATION, **change}
    return said(streams(2, records_per_s=rate, measured_capacity=measured), "streams.capacity")


def test_an_applications_headroom_is_said_healthy_and_with_one_host_away() -> None:
    healthy, away = of_application(1500)
    assert "healthy 4,000 records/s are sustained" in healthy.message
    assert "with one host down 2,000 records/s are sustained" in away.message
    assert "what a host of it does" in away.message
    assert of_application(None) == []


def test_an_application_that_one_host_less_does_not_carry_is_an_error() -> None:
    assert [one.severity for one in of_application(2500)] == ["note", "error"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": "other"}, "it is of other with 4.3.1, and joins with 4.3.1 is planned"),
        ({"cores": 8}, "it is of hosts with 8 cores, and this one has 2"),
        ({"instances_per_host": 2}, "it is of 2 instances a host, and 1 are planned"),
        ({"record_bytes": 100}, "it is of 100 bytes a record, not 6000"),
    ],
)
def test_a_measurement_of_another_application_is_refused(change: dict[str, Any], why: str) -> None:
    (warning,) = of_application(1500, **change)
    assert (warning.severity, why in warning.message) == ("warning", True)
