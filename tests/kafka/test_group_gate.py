"""The gate of a restart, on a real group: one that no longer reads what comes is not caught up."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kedge.deploy.gate_watch import Watch
from kedge.deploy.group_gate import GateDecision, Looker, Question
from tests.awaiting import await_that
from tests.kafka.crashable import CrashableBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


def test_a_group_that_stops_reading_one_partition_keeps_the_gate_closed_however_much_lag_is_allowed(
    broker: CrashableBroker, topic: str
) -> None:
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    producer, group = Producer(servers), f"group-of-{topic}"
    consumer = Consumer({**servers, "group.id": group, "auto.commit.interval.ms": 200})
    watch = Watch(Looker({"bootstrap_servers": broker.bootstrap_servers, "groups": [group]}))

    def go_on() -> None:
        for partition in range(4):
            producer.produce(topic, b"", partition=partition)
        producer.flush(10)
        for _ in range(8):
            consumer.poll(0.05)

    def asked(kind: str, seconds: float) -> GateDecision:
        question = Question(kind, time.monotonic(), seconds, baseline_ms=1000, max_lag=1_000_000)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(watch.ask, question)
            while not answer.done():
                go_on()
                watch.look()
            return answer.result()

    try:
        consumer.subscribe([topic])
        await_that(lambda: consumer.poll(0.1) or consumer.assignment(), "the consumer has partitions")
        go_on()
        assert asked("before", 60).wrong is None
        assert asked("after", 60).wrong is None
        consumer.pause([TopicPartition(topic, 2)])
        # Records come while an instance restarts, and are there when its gate asks.
        for _ in range(5):
            go_on()
            watch.look()
        stands = f"group {group} commits no more for {topic}-2, whose end grows"
        assert asked("after", 5).wrong == f"after 5 s {stands}"
        assert asked("hold", 3).wrong == f"in 3 s {stands}"
        consumer.resume([TopicPartition(topic, 2)])
        assert asked("after", 60).wrong is None
    finally:
        consumer.close()


def test_canaries_whose_groups_take_turns_keep_no_gate_closed(broker: CrashableBroker, topic: str) -> None:
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    watch = Watch(Looker({"bootstrap_servers": broker.bootstrap_servers}))

    def asked(kind: str, baseline: dict[str, int]) -> GateDecision:
        question = Question(kind, time.monotonic(), 20, baseline, baseline_ms=1000, watch_ms=1000)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(watch.ask, question)
            while not answer.done():
                watch.look()
            return answer.result()

    consumer = Consumer({**servers, "group.id": f"kedge-canary-{topic}-rest-1"})
    try:
        consumer.subscribe([topic])
        await_that(
            lambda: consumer.poll(0.1) or consumer.assignment(), "the window's consumer has partitions"
        )
        before = asked("before", {})
    finally:
        consumer.close()
    assert before.wrong is None
    assert asked("after", dict(before.lags)).wrong is None
