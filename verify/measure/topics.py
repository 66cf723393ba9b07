"""Temporary topics: made for a measurement, and gone after it, however it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from kedge.deploy.kafka_admin import TIMEOUT_SECONDS, RefusedError, admin
from verify.measure.config import PREFIX, MeasureError

#: Should a topic outlive its measurement (a machine that lost power), its records do not.
_RETENTION_MS: Final = 600_000
_LEADERS_S: Final = 30.0


def connect(bootstrap_servers: str, client: dict[str, Any]) -> Any:
    """Return an admin client whose cluster has answered; raises MeasureError."""
    try:
        return admin(bootstrap_servers, {"client.id": "kedge-measure", **client})
    except RefusedError as error:
        raise MeasureError(str(error)) from error
    except (ConnectionError, KafkaException) as error:
        raise MeasureError(f"{error}; is the cluster deployed, and reachable from here?") from error


def left_over(client: Any, cluster: str) -> list[str]:
    """Return the topics of measurements that run now, or were killed before they could clean up."""
    try:
        return sorted(
            name for name in client.list_topics(timeout=TIMEOUT_SECONDS).topics if name.startswith(PREFIX)
        )
    except KafkaException as error:
        raise MeasureError(
            f"the topics of cluster {cluster} cannot be listed: {error.args[0].str()}"
        ) from error


def check_replication(client: Any, cluster: str, replication: int) -> None:
    """Raise MeasureError when the cluster has fewer brokers than a topic is to have copies."""
    brokers = len(client.list_topics(timeout=TIMEOUT_SECONDS).brokers)
    if replication > brokers:
        raise MeasureError(
            f"cluster {cluster} has {brokers} broker{'s' * (brokers != 1)}, and --replication is "
            f"{replication}: "
            f"say --replication {brokers} or less"
        )


@contextmanager
def temporary_topic(client: Any, name: str, partitions: int, replication: int) -> Iterator[str]:
    """Have a topic, all its partitions led, until the block ends; raises MeasureError when it is refused."""
    config = {"retention.ms": str(_RETENTION_MS), "cleanup.policy": "delete"}
    try:
        _create(client, NewTopic(name, partitions, replication, config=config))
        _await_leaders(client, name, partitions)
        yield name
    finally:
        _delete(client, name)


def _create(client: Any, topic: NewTopic) -> None:
    try:
        client.create_topics([topic], operation_timeout=TIMEOUT_SECONDS)[topic.topic].result(TIMEOUT_SECONDS)
    except KafkaException as error:
        refused: KafkaError = error.args[0]
        raise MeasureError(
            f"the cluster does not create topic {topic.topic} with {topic.num_partitions} partitions and "
            f"{topic.replication_factor} copies ({refused.name()}: {refused.str()}); a measurement needs the "
            f"right to create and delete topics named {PREFIX}*"
        ) from error


def _await_leaders(client: Any, name: str, partitions: int) -> None:
    deadline = time.monotonic() + _LEADERS_S
    while time.monotonic() < deadline:
        found = client.list_topics(name, timeout=TIMEOUT_SECONDS).topics[name].partitions
        if len(found) == partitions and all(p.leader >= 0 for p in found.values()):
            return
        time.sleep(0.05)
    raise MeasureError(
        f"topic {name} has partitions without a leader after {_LEADERS_S:.0f} s: is a broker down?"
    )


def _delete(client: Any, name: str) -> None:
    try:
        client.delete_topics([name], operation_timeout=TIMEOUT_SECONDS)[name].result(TIMEOUT_SECONDS)
    except KafkaException as error:
        gone = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        if not gone:
            raise MeasureError(
                f"topic {name} of this measurement could not be deleted ({error.args[0].str()}): delete it"
            ) from error
