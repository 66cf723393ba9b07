"""The modules that tell of the members of groups, as a playbook calls them, against a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from tests.awaiting import await_that
from tests.kafka.crashable import CrashableBroker
from tests.kafka.modules import run_module

pytestmark = pytest.mark.kafka


@contextmanager
def joined(broker: CrashableBroker, topic: str, group: str, name: str) -> Iterator[None]:
    """A consumer that has its partitions."""
    keys = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "client.id": name}
    consumer = Consumer(keys)
    consumer.subscribe([topic])
    await_that(lambda: consumer.poll(0.1) or consumer.assignment(), "the consumer has partitions")
    try:
        yield
    finally:
        consumer.close()


def test_group_and_name_of_each_member_are_told(broker: CrashableBroker, topic: str) -> None:
    named = {"group": f"group-of-{topic}", "name": f"name-in-{topic}"}
    with joined(broker, topic, **named):
        told = run_module("kafka_group_members", {"bootstrap_servers": broker.bootstrap_servers})
    assert named in told["members"]
    assert not told["changed"]


def test_a_mirror_beside_a_flow_is_warned_of_unless_it_is_known(broker: CrashableBroker, topic: str) -> None:
    flows = {"metrics": {"target": "agg", "topics": [topic]}}
    asked = {"bootstrap_servers": broker.bootstrap_servers, "flows": flows}
    with joined(broker, topic, "theirs", "theirs-0"):
        told = run_module("kafka_other_mirrors", asked)
        known = run_module("kafka_other_mirrors", asked | {"known": ["theirs"]})
    (other,) = told["mirrors"]
    assert (other["flow"], other["group"]) == ("metrics", "theirs")
    assert f"group theirs of {broker.bootstrap_servers} reads all topics of flow metrics" in told["printed"]
    assert "theirs-0 on " in told["printed"]
    assert known["mirrors"] == []
    assert "group theirs" not in known["printed"]


def test_a_cluster_that_does_not_answer_is_named_in_a_line() -> None:
    told = run_module("kafka_group_members", {"bootstrap_servers": "127.0.0.1:1"})
    assert told["failed"]
    assert "127.0.0.1:1" in told["msg"]
