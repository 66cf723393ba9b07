"""Limits of a broker's host and of a cluster's metadata."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kedge.services.topics.living_cluster import (
    BrokerUse,
    Led,
    as_rows,
    measured_replication,
    of_broker,
    of_cluster,
)
from verify.collect.remote import RemoteError
from verify.limits import broker_uses, led_partitions


def test_host_near_its_limits_is_told() -> None:
    (use,) = broker_uses("b1", ["max_map_count 65530", "broker 900 1000 500"])
    files, maps = of_broker("b1", use)
    assert files.exceeded
    assert files.because == "80% of the 1,000 that its process may open"
    assert not maps.exceeded


def test_process_without_a_limit_of_files_is_held_against_what_was_seen() -> None:
    (use,) = broker_uses("b1", ["max_map_count 65530", "broker 30001 unlimited 60000"])
    files, maps = of_broker("b1", use)
    assert (use, files.most) == (BrokerUse(30_001, None, 60_000, 65_530), 30_000)
    assert files.exceeded
    assert maps.exceeded


def test_host_without_a_broker_is_told() -> None:
    with pytest.raises(RemoteError, match="b1: no broker runs there"):
        broker_uses("b1", ["max_map_count 65530"])


def test_leaders_partitions_and_latency_follow_the_metadata() -> None:
    def led(leader: int) -> SimpleNamespace:
        return SimpleNamespace(leader=leader, replicas=[1, 2])

    topics = {"a": SimpleNamespace(partitions={n: led(1) for n in range(4001)} | {4001: led(-1)})}
    rows = {(row.where, row.what): row for row in of_cluster("leaf", [2, 1], led_partitions(topics))}
    assert rows["broker 1", "leaders"].exceeded
    assert rows["broker 2", "leaders"].found == 0
    assert rows["leaf", "partitions without a leader"].exceeded
    added = rows["leaf", "ms that replication is expected to add"]
    assert (round(added.found, 2), added.exceeded) == (40.02, False)


def test_each_limit_has_its_rule_its_reason_and_its_source() -> None:
    limits = of_cluster("leaf", [1], [Led(1, 1)]) + of_broker("b1", BrokerUse(1, 2, 3, 4))
    for row in as_rows([*limits, measured_replication("leaf", 1.0, 3.5, 3)]):
        assert row["rule"], row
        assert row["because"], row
        assert row["source"], row


def test_measured_replication_is_the_difference_of_the_answers() -> None:
    limit = measured_replication("leaf", 1.0, 3.5, 3)
    assert (limit.found, limit.exceeded) == (2.5, False)
