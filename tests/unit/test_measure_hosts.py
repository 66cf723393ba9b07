"""How busy a machine was, from what its kernel counts; what becomes of a measurement's topic."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from verify.measure.config import MeasureError, Measurement
from verify.measure.topics import temporary_topic
from verify.measure.utilization import load, parse, this_machine

BEFORE = """boot 11-22
at 1000000000
cpu  100 0 100 800 0 0 0 0 0 0
disk    8       0 sda 1 0 0 0 1 0 0 0 0 500 0
disk    8       1 sda1 1 0 0 0 1 0 0 0 0 900 0
net Inter-|   Receive |  Transmit
net   eth0: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0
net     lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0
speed eth0 100
speed lo
"""
AFTER = """boot 11-22
at 3000000000
cpu  150 0 200 840 10 0 0 0 0 0
disk    8       0 sda 1 0 0 0 1 0 0 0 0 1500 0
disk    8       1 sda1 1 0 0 0 1 0 0 0 0 2900 0
net   eth0: 10001000 1 0 0 0 0 0 0 10002000 1 0 0 0 0 0 0
speed eth0 100
"""


def test_shares_are_those_of_the_time_between_two_readings() -> None:
    found = load("b1", "broker", parse(BEFORE.splitlines()), parse(AFTER.splitlines()))
    assert found.cpu == 0.75  # 150 of 200 ticks; waiting for a disk is no work
    assert found.disk == 0.5  # 1,000 ms of 2 s, of the disk and not of its partition
    assert found.network_mb_per_s == 10.0
    assert found.network == 0.8  # 80 of 100 Mbit/s


def test_a_link_of_unknown_speed_has_no_share() -> None:
    text = AFTER.replace("speed eth0 100\n", "speed eth0\n")
    assert load("b1", "broker", parse(BEFORE.splitlines()), parse(text.splitlines())).network is None


@pytest.mark.process
def test_this_machine_can_be_read() -> None:
    assert this_machine().cpu_total > 0


def test_what_is_no_kernels_is_refused() -> None:
    with pytest.raises(ValueError, match="no counters"):
        parse(["cat: /proc/stat: No such file"])


@pytest.mark.parametrize(
    ("code", "stays"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, True), (KafkaError.UNKNOWN_TOPIC_OR_PART, False)],
)
def test_a_topic_that_cannot_be_deleted_is_named_unless_it_is_gone(code: int, stays: bool) -> None:
    def refused(_: float) -> None:
        raise KafkaException(KafkaError(code))

    led: Any = SimpleNamespace(
        topics={"kedge-measure-1": SimpleNamespace(partitions={0: SimpleNamespace(leader=1)})}
    )
    client = SimpleNamespace(
        create_topics=lambda topics, **_: {topics[0].topic: SimpleNamespace(result=lambda _: None)},
        list_topics=lambda *_, **__: led,
        delete_topics=lambda names, **_: {names[0]: SimpleNamespace(result=refused)},
    )
    said = pytest.raises(MeasureError, match="kedge-measure-1 of this measurement could not be deleted")
    with said if stays else nullcontext(), temporary_topic(client, "kedge-measure-1", 1, 1):
        pass


def test_a_measurement_has_one_repetition_at_least() -> None:
    given = {"run_id": "measure-1", "cluster": "leaf", "bootstrap_servers": "b:9092"}
    assert Measurement.model_validate({**given, "repetitions": 1}).repetitions == 1
    with pytest.raises(ValueError, match="repetitions"):
        Measurement.model_validate({**given, "repetitions": 0})
