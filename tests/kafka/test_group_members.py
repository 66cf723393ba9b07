"""Who tells of the members of groups, against a real broker: the gate, and the module that looks for other mirrors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from kedge.deploy.gate_watch import Watch
from kedge.deploy.group_gate import Looker, Question
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
    of_canary = {"group": f"kedge-canary-{topic}-rest-1", "name": "canary"}
    named = {"group": f"group-of-{topic}", "name": f"name-in-{topic}"}
    watch = Watch(Looker({"bootstrap_servers": broker.bootstrap_servers}))
    with joined(broker, topic, **named), joined(broker, topic, **of_canary):
        watch.look()
        told = watch.ask(Question("sample", 0, 20))
    assert {tuple(named.values()), tuple(of_canary.values())} <= set(told.members)
    assert named["group"] in told.lags
    assert of_canary["group"] not in told.lags


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
