"""What the parent asks of the cluster: topics, offsets, groups. All calls raise LoadError in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from verify.load.config import Load, LoadError
from verify.watch.sampler import describe

_ASK_S: Final = 10.0
Offsets = dict[int, int]


@contextmanager
def _said_plainly(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise LoadError(f"{what}: {error.args[0].str()}") from error


def connect(load: Load) -> AdminClient:
    """Return an admin client of the load's cluster, which has answered once."""
    with _said_plainly("the client's configuration is not accepted"):
        admin = AdminClient({**load.client_config(), "client.id": "load"})
    try:
        admin.list_topics(timeout=_ASK_S)
    except KafkaException as error:
        raise LoadError(
            f"no broker of cluster {load.cluster} answers at {load.bootstrap_servers} within {_ASK_S:.0f} s "
            f"({error.args[0].str()}); is it deployed, and reachable from here?"
        ) from error
    return admin


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
    where = [TopicPartition(topic, partition, offset) for partition, offset in at.items()]
    try:
        request = [ConsumerGroupTopicPartitions(group, where)]
        for answer in admin.alter_consumer_group_offsets(request, request_timeout=_ASK_S).values():
            answer.result()
    except KafkaException as error:
        raise LoadError(
            f"consumer group {group} cannot be placed at the start of the run ({error.args[0].str()}); "
            f"is another load or application using it? Stop it, or give the load another group"
        ) from error


def committed(admin: AdminClient, group: str, topic: str, count: int) -> Offsets:
    """Return the offsets that a group has committed."""
    asked = [TopicPartition(topic, number) for number in range(count)]
    with _said_plainly(f"the offsets of group {group} cannot be read"):
        answers = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, asked)], request_timeout=_ASK_S
        )
        found = answers[group].result().topic_partitions
    return {each.partition: each.offset for each in found if each.offset >= 0}


def group_waits_for(admin: AdminClient, group: str, topic: str, count: int, members: int) -> str:
    """Return what a group still lacks to be whole (Stable, all members, all partitions); empty when it is."""
    with _said_plainly(f"group {group} cannot be described"):
        sample = describe(admin, group)
    owned = {partition for member in sample.members.values() for partition in member}
    assigned = sum(1 for owner_topic, _ in owned if owner_topic == topic)
    # librdkafka has no name for the states of a KIP-848 group that is not Stable.
    if sample.state == "Stable" and assigned == count and len(sample.members) == members:
        return ""
    return (
        f"group {group} is {sample.state} with {len(sample.members)} of {members} members "
        f"and {assigned} of {count} partitions"
    )
