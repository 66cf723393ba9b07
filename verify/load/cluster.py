"""What the parent asks of the cluster: topics, offsets, groups. All calls raise LoadError in plain words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from kedge.deploy.kafka_admin import RefusedError, admin
from kedge.evidence.load_options import LoadError, LoadSpec
from verify.load.board import Cell

_ASK_S: Final = 10.0
#: A broker that has just started needs a while until it coordinates groups.
_COORDINATOR_S: Final = 30.0
_NO_COORDINATOR_YET: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._TIMED_OUT,
    }
)
Offsets = dict[int, int]


@contextmanager
def _said_plainly(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise LoadError(f"{what}: {error.args[0].str()}") from error


def connect(load: LoadSpec, cluster: str) -> AdminClient:
    """Return an admin client of a cluster, which has answered once."""
    config = load.client_config(cluster)
    servers = str(config["bootstrap.servers"])
    try:
        return admin(servers, {**config, "log_level": 0, "client.id": "load"})
    except RefusedError as error:
        raise LoadError(f"cluster {cluster}: {error}") from error
    except ConnectionError as error:
        raise LoadError(f"cluster {cluster}: {error}; is it deployed, and reachable from here?") from error


def partitions(admin: AdminClient, topic: str) -> int:
    """Return how many partitions a topic has."""
    with _said_plainly(f"topic {topic} cannot be looked up"):
        found = admin.list_topics(topic, timeout=_ASK_S).topics.get(topic)
    if found is None or found.error is not None or not found.partitions:
        raise LoadError(f"topic {topic} is not there: create it first (deploy.yml does, from the inventory)")
    return len(found.partitions)


def offsets(admin: AdminClient, topic: str, count: int, earliest: bool = False) -> Offsets:
    """Return the end (or log start) offset of each partition."""
    spec = OffsetSpec.earliest() if earliest else OffsetSpec.latest()
    asked = {TopicPartition(topic, number): spec for number in range(count)}
    with _said_plainly(f"the offsets of topic {topic} cannot be listed"):
        # librdkafka goes on asking by the leaders that it knew, also when others have long taken over.
        admin.list_topics(topic, timeout=_ASK_S)
        answers = admin.list_offsets(asked, request_timeout=_ASK_S)
        return {partition.partition: answer.result().offset for partition, answer in answers.items()}


def topic_config(admin: AdminClient, topic: str) -> tuple[str, int]:
    """Return a topic's cleanup.policy and retention.ms."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    with _said_plainly(f"the configuration of topic {topic} cannot be read"):
        config = admin.describe_configs([resource], request_timeout=_ASK_S)[resource].result()
    return str(config["cleanup.policy"].value), int(config["retention.ms"].value)


def place_group(admin: AdminClient, group: str, topic: str, at: Offsets) -> None:
    """Have a group without members begin at these offsets, so that no rebalance can make it skip a record."""
    deadline = time.monotonic() + _COORDINATOR_S
    while (error := _try_to_place(admin, group, topic, at)) is not None:
        if error.code() not in _NO_COORDINATOR_YET or time.monotonic() >= deadline:
            raise LoadError(
                f"consumer group {group} cannot be placed at the start of the run ({error.str()}); "
                f"is another load or application using it? Stop it, or give the load another group"
            )
        time.sleep(0.2)


def _try_to_place(admin: AdminClient, group: str, topic: str, at: Offsets) -> KafkaError | None:
    where = [TopicPartition(topic, partition, offset) for partition, offset in at.items()]
    request = [ConsumerGroupTopicPartitions(group, where)]
    try:
        answer = admin.alter_consumer_group_offsets(request, request_timeout=_ASK_S)[group].result()
    except KafkaException as error:
        refusal: KafkaError = error.args[0]
        return refusal
    return next((placed.error for placed in answer.topic_partitions if placed.error is not None), None)


def committed(load: LoadSpec, group: str, topic: str, count: int) -> Offsets:
    """Return the offsets that a group has committed.

    A consumer that never joins asks, because an admin client may abort the process when a connection breaks.
    """
    asker = Consumer({**load.client_config(), "log_level": 0, "group.id": group, "client.id": "load"})
    asked = [TopicPartition(topic, number) for number in range(count)]
    with _said_plainly(f"the offsets of group {group} cannot be read"), closing(asker):
        found = asker.committed(asked, timeout=_ASK_S)
        return {each.partition: each.offset for each in found if each.offset >= 0}


def group_lacks(cells: npt.NDArray[np.int64], group: str, partitions: int, members: int) -> str:
    """Return what a group, as its row of the board tells it, lacks to be whole; empty when it is."""
    is_stable, has, assigned = bool(cells[Cell.STABLE]), int(cells[Cell.MEMBERS]), int(cells[Cell.ASSIGNED])
    if is_stable and has == members and assigned == partitions:
        return ""
    return (
        f"group {group} is {'' if is_stable else 'not '}Stable, with {has} of {members} members "
        f"and {assigned} of {partitions} partitions"
    )
