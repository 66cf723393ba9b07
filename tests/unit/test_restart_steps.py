"""Where the time of a restart went: each step, and what the playbook took for itself."""

from __future__ import annotations

from typing import Any

import pytest

from spark_checks.rebalance.restarts import find_restarts
from spark_checks.rebalance.steps import steps

ONE = [
    ("gate", 0, 1),
    ("drain", 1.5, 2),
    ("stop", 2.5, 3),
    ("start", 3, 4),
    ("ready", 3, 6),
    ("undrain", 6.5, 7),
    ("gate", 7.5, 9),
]


def told(after: float, *names: str, host: str = "rest1", actions: Any = ONE) -> list[dict[str, Any]]:
    return [
        {
            "host": host,
            "service": "kafka_rest",
            "instance": "8082",
            "action": action,
            "started_us": int((after + begin) * 1e6),
            "ended_us": int((after + end) * 1e6),
            "ok": True,
        }
        for action, begin, end in actions
        if not names or action in names
    ]


def spent(*rows: list[dict[str, Any]]) -> list[dict[str, float]]:
    actions = [row for each in rows for row in each]
    restarts = find_restarts(actions, 1_000_000_000)
    found = steps(actions, restarts)
    return [found[restart.number] for restart in restarts]


def test_each_step_has_its_time_and_the_rest_is_the_playbooks() -> None:
    (one,) = spent(told(0))
    assert one == {
        "gate": 2.5,
        "drain": 0.5,
        "stop": 0.5,
        "start": 1,
        "ready": 2,
        "undrain": 0.5,
        "control": 2.0,
    }


def test_the_time_between_two_restarts_belongs_to_the_later_one() -> None:
    first, second = spent(told(0), told(10, host="rest2"))
    assert (first["control"], second["control"]) == (2.0, 3.0)


def test_an_instance_that_restarts_twice_has_two_times() -> None:
    first, second = spent(told(0), told(20))
    assert first["gate"] == second["gate"] == 2.5
    assert second["control"] == pytest.approx(13)


def test_instances_that_restart_together_share_the_playbooks_time() -> None:
    first, second = spent(told(0), told(0.1, host="rest2"))
    assert first["control"] == second["control"] == pytest.approx((9.1 - 7.5) / 2)
    assert first["gate"] == 2.5


def test_a_service_without_balancer_and_groups_has_the_steps_that_it_has() -> None:
    (one,) = spent(told(0, "stop", "start", "ready"))
    assert set(one) == {"stop", "start", "ready", "control"}
    assert one["control"] == 0
