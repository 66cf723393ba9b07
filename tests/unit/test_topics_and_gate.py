"""What the topic module changes and refuses, and what keeps the gate of a restart closed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kedge.deploy.group_gate import complaint
from plugins.modules import kafka_replicas_gate
from plugins.modules.kafka_topics_present import compare, replication_drift, too_many_copies, unplanned

PLAN = {"t": {"partitions": "6", "replication.factor": "1", "retention.ms": "1000"}}


def test_a_missing_topic_is_created_with_its_settings() -> None:
    changes, refused = compare(PLAN, {}, {})
    assert changes == {"t": {"create": PLAN["t"]}}
    assert not refused


def test_a_topic_as_planned_is_left_alone() -> None:
    assert compare(PLAN, {"t": 6}, {"t": {"retention.ms": "1000"}}) == ({}, [])


def test_a_setting_that_drifted_is_set_back() -> None:
    changes, _ = compare(PLAN, {"t": 6}, {"t": {"retention.ms": "5"}})
    assert changes == {"t": {"set": {"retention.ms": ["5", "1000"]}}}


def test_more_partitions_are_a_change_of_their_own() -> None:
    changes, _ = compare(PLAN, {"t": 2}, {"t": {"retention.ms": "1000"}})
    assert changes == {"t": {"grow": [2, 6]}}


def test_fewer_partitions_are_refused() -> None:
    changes, refused = compare(PLAN, {"t": 12}, {"t": {"retention.ms": "1000"}})
    assert not changes
    assert "12 partitions and the plan says 6" in refused[0]


def test_another_number_of_copies_is_said_and_not_changed() -> None:
    (line,) = replication_drift(PLAN, {"t": 3, "not-planned": 2})
    assert line.startswith("topic t has 3 copies and the plan says 1")
    assert replication_drift(PLAN, {"t": 1}) == []
    assert replication_drift(PLAN, {}) == []


def test_settings_that_somebody_gave_a_topic_are_said_and_left_alone() -> None:
    (line,) = unplanned(PLAN, {"t": {"retention.ms": "5", "flush.ms": "1"}})
    assert line.startswith("topic t has flush.ms=1, which the plan does not name")


def test_more_copies_than_brokers_are_refused_beforehand() -> None:
    create = {"t": {"create": PLAN["t"]}}
    wide = {"t": {**PLAN["t"], "replication.factor": "3"}}
    assert too_many_copies(PLAN, create, 1) == []
    (line,) = too_many_copies(wide, create, 1)
    assert line.startswith("t is to have 3 copies, and the cluster has 1 broker: set its replication to 1")
    assert too_many_copies(wide, {"t": {"grow": [1, 6]}}, 1) == []
    assert too_many_copies(wide, {}, 0) == []
    (line,) = too_many_copies(wide, create, 0)
    assert "no broker registered" in line


@pytest.mark.parametrize("state", ["PREPARING_REBALANCING", "COMPLETING_REBALANCING", "UNKNOWN", "DEAD"])
def test_a_group_that_is_not_stable_keeps_the_gate_closed(state: str) -> None:
    assert complaint({"g": state}, {"g": 0}, {}, 0) == f"group g is {state}"


def test_lag_above_baseline_and_allowance_keeps_the_gate_closed() -> None:
    assert complaint({"g": "STABLE"}, {"g": 201}, {"g": 100}, 50) is not None
    assert complaint({"g": "STABLE"}, {"g": 200}, {"g": 100}, 50) is None
    assert complaint({"g": "STABLE"}, {"g": 50}, {}, 50) is None


def test_a_group_that_lost_its_members_keeps_the_gate_closed() -> None:
    assert complaint({}, {}, {"g": 100}, 50) == "group g had members before and has none now"
    assert complaint({}, {}, None, 50) is None


def cluster(brokers: int, *partitions: tuple[int, list[int], list[int]]) -> Any:
    found = {
        number: SimpleNamespace(id=number, leader=leader, isrs=in_sync, replicas=replicas)
        for number, (leader, in_sync, replicas) in enumerate(partitions)
    }
    topics = {"t": SimpleNamespace(partitions=found)}
    return SimpleNamespace(brokers=dict.fromkeys(range(brokers)), topics=topics)


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (cluster(3, (1, [1, 2, 3], [1, 2, 3]), (2, [2], [2])), None),
        (cluster(2, (1, [1, 2], [1, 2])), "2 of 3 brokers are there"),
        (cluster(3, (1, [1, 2, 3], [1, 2, 3]), (1, [1, 3], [1, 2, 3])), "t-1 with 2 of 3 replicas in sync"),
        (cluster(3, (-1, [2], [2])), "t-0 with no leader"),
    ],
)
def test_no_broker_is_stopped_while_a_partition_lacks_a_replica(metadata: Any, said: str | None) -> None:
    complaint = kafka_replicas_gate.complaint(metadata, 3)
    assert complaint is None if said is None else said in str(complaint)
