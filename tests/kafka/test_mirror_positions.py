"""The module that takes the positions of a mirror over, as a playbook calls it, against a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.awaiting import await_that
from tests.kafka.crashable import CrashableBroker
from tests.kafka.modules import run_module

pytestmark = pytest.mark.kafka
PARTITIONS = 4


@pytest.fixture
def asked(broker: CrashableBroker, topic: str) -> dict[str, Any]:
    """What a playbook asks for, of a topic with ten records in each partition; groups of this test alone."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10 * PARTITIONS):
        producer.produce(topic, b"x", partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    own = uuid.uuid4().hex[:8]
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "flow": "flow",
        "topics": [topic],
        "group": f"theirs-{own}",
        "into": f"ours-{own}",
        "seconds": 1,
    }


def commit(asked: dict[str, Any], group: str, topic: str, *offsets: int) -> None:
    """Have a group commit these offsets of the first partitions of a topic."""
    client = AdminClient({"bootstrap.servers": asked["bootstrap_servers"]})
    at = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]

    def committed() -> bool:
        """Of a broker that has just started, the coordinator of groups may not be there yet."""
        (answer,) = client.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, at)]).values()
        return all(each.error is None for each in answer.result(15).topic_partitions)

    await_that(committed, "the broker keeps the positions")


def positions(asked: dict[str, Any], group: str) -> list[int]:
    client = AdminClient({"bootstrap.servers": asked["bootstrap_servers"]})
    (answer,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return [p.offset for p in sorted(answer.result(15).topic_partitions, key=lambda p: p.partition)]


@contextmanager
def member(asked: dict[str, Any], group: str) -> Iterator[None]:
    """A consumer of a group that has its partitions."""
    keys = {"bootstrap.servers": asked["bootstrap_servers"], "group.id": group, "client.id": "somebody"}
    consumer = Consumer(keys | {"enable.auto.commit": False})
    consumer.subscribe(asked["topics"])
    await_that(lambda: consumer.poll(0.1) or consumer.assignment(), "the consumer has partitions")
    try:
        yield
    finally:
        consumer.close()


def test_a_flow_begins_at_the_positions_and_the_group_of_the_mirror_keeps_its_own(
    asked: dict[str, Any], topic: str
) -> None:
    commit(asked, asked["group"], topic, 4, 5, 6, 7)
    looked = run_module("kafka_mirror_positions", asked, check=True)
    assert (looked["refused"], looked["positions"], looked["behind"]) == ("", 4, 18)
    assert positions(asked, asked["into"]) == []
    assert run_module("kafka_mirror_positions", asked)["changed"]
    assert positions(asked, asked["into"]) == [4, 5, 6, 7]
    # It went on after a failure, and one of its partitions was copied by ours.
    commit(asked, asked["group"], topic, 9, 9, 9, 9)
    commit(asked, asked["into"], topic, 4, 5, 6, 10)
    assert run_module("kafka_mirror_positions", asked | {"stopped": True})["changed"]
    assert positions(asked, asked["into"]) == [9, 9, 9, 10]
    assert positions(asked, asked["group"]) == [9, 9, 9, 9]
    assert not run_module("kafka_mirror_positions", asked)["changed"]


def test_a_group_that_is_not_there_and_a_topic_that_the_flow_leaves_out_are_refused(
    asked: dict[str, Any], topic: str, broker: CrashableBroker
) -> None:
    looked = run_module("kafka_mirror_positions", asked, check=True)
    assert not looked["failed"]
    assert looked["refused"].startswith(f"group {asked['group']} has no committed position: correct")
    commit(asked, asked["group"], topic, 4, 5)
    other = f"o-{topic}"
    broker.create_topic(other)
    commit(asked, asked["group"], other, 0)
    refused = run_module("kafka_mirror_positions", asked)
    assert refused["failed"]
    assert f"has positions of {other}, which no topics of flow flow match" in refused["msg"]
    shared = run_module("kafka_mirror_positions", asked | {"beside": ["o-.*"]}, check=True)
    assert "has no position of" in shared["refused"]
    left_out = asked | {"leave_out": [other]}
    refused = run_module("kafka_mirror_positions", left_out)
    assert f"has no position of {topic}-2" in refused["msg"] or "[2-3], which have records" in refused["msg"]
    assert positions(asked, asked["into"]) == []
    assert run_module("kafka_mirror_positions", left_out | {"offset_reset": "latest"})["changed"]
    assert positions(asked, asked["into"]) == [4, 5, 10, 10]


def test_nothing_is_taken_over_while_a_group_has_members(asked: dict[str, Any], topic: str) -> None:
    commit(asked, asked["group"], topic, 4, 5, 6, 7)
    with member(asked, asked["group"]):
        refused = run_module("kafka_mirror_positions", asked | {"stopped": True})
        assert refused["failed"]
        assert (
            f"group {asked['group']} still has somebody on 127.0.0.1: stop it, or name its process"
            in refused["msg"]
        )
        # Before the stop it has them, and its positions are taken as they are.
        assert run_module("kafka_mirror_positions", asked)["changed"]
    with member(asked, asked["into"]):
        refused = run_module("kafka_mirror_positions", asked)
        assert f"group {asked['into']} still has somebody on" in refused["msg"]


def test_a_cluster_that_does_not_answer_is_named_in_a_line() -> None:
    asked = {"bootstrap_servers": "127.0.0.1:1", "flow": "f", "topics": ["t"], "group": "g", "into": "i"}
    told = run_module("kafka_mirror_positions", asked, check=True)
    assert told["failed"]
    assert "no broker of 127.0.0.1:1 answers" in told["msg"]
    assert "No position was changed" in told["msg"]
