"""Limits of a broker's host and of a cluster's metadata."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from verify.collect.remote import RemoteError
from verify.limits import of_cluster, of_host


def test_host_near_its_limits_is_told() -> None:
    files, maps = of_host("b1", ["max_map_count 65530", "broker 900 1000 500"])
    assert files.exceeded
    assert not maps.exceeded


def test_host_without_a_broker_is_told() -> None:
    with pytest.raises(RemoteError, match="b1: no broker runs there"):
        of_host("b1", ["max_map_count 65530"])


def test_leaders_partitions_and_latency_follow_the_metadata() -> None:
    def led(leader: int) -> SimpleNamespace:
        return SimpleNamespace(leader=leader, replicas=[1, 2])

    topics = {"a": SimpleNamespace(partitions={n: led(1) for n in range(4001)} | {4001: led(-1)})}
    rows = {(row.where, row.what): row for row in of_cluster("leaf", [2, 1], topics)}
    assert rows["broker 1", "leaders"].exceeded
    assert rows["broker 2", "leaders"].found == 0
    assert rows["leaf", "partitions without a leader"].exceeded
    added = rows["leaf", "ms that replication is expected to add"]
    assert (round(added.found, 2), added.exceeded) == (40.02, False)
