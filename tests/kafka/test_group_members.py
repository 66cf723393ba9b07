"""The module that tells the members of groups, as a playbook calls it, against a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from tests.awaiting import await_that
from tests.kafka.crashable import CrashableBroker
from tests.kafka.modules import run_module

pytestmark = pytest.mark.kafka


@pytest.fixture
def member(broker: CrashableBroker, topic: str) -> Iterator[dict[str, str]]:
    """A consumer that has its partitions; its group and name."""
    named = {"group": f"group-of-{topic}", "name": f"name-in-{topic}"}
    keys = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": named["group"],
        "client.id": named["name"],
    }
    consumer = Consumer(keys)
    consumer.subscribe([topic])
    await_that(lambda: consumer.poll(0.1) or consumer.assignment(), "the consumer has partitions")
    yield named
    consumer.close()


def test_group_and_name_of_each_member_are_told(broker: CrashableBroker, member: dict[str, str]) -> None:
    told = run_module("kafka_group_members", {"bootstrap_servers": broker.bootstrap_servers})
    assert member in told["members"]
    assert not told["changed"]


def test_a_cluster_that_does_not_answer_is_named_in_a_line() -> None:
    told = run_module("kafka_group_members", {"bootstrap_servers": "127.0.0.1:1"})
    assert told["failed"]
    assert "127.0.0.1:1" in told["msg"]
