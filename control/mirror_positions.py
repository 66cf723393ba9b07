"""How far MirrorMaker 2 has come: it commits no consumer group, it keeps offsets in a topic of its own."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from border.cluster import position
from border.untrusted import UntrustedError

SOURCE_CONNECTOR = "MirrorSourceConnector"
READ_SECONDS = 15

Positions = dict[tuple[str, int], int]


def read_positions(client: Mapping[str, Any], topic: str) -> Positions:
    """Return the next source offset of each mirrored partition, from the workers' offsets topic.

    Raises:
        ConnectionError: when the topic cannot be read to its end within 15 seconds.
    """
    reader = Consumer({**client, "group.id": "kedge-gate", "enable.auto.commit": False,
                       "enable.partition.eof": True, "log_level": 0})  # fmt: skip
    try:
        described = reader.list_topics(topic, timeout=READ_SECONDS).topics[topic]
        if described.error is not None:
            return {}
        reader.assign([TopicPartition(topic, number, 0) for number in described.partitions])
        found: Positions = {}
        open_partitions = set(described.partitions)
        deadline = time.monotonic() + READ_SECONDS
        while open_partitions:
            if time.monotonic() >= deadline:
                raise ConnectionError(f"topic {topic} cannot be read to its end")
            for message in reader.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    found |= parse_position(message.key(), message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise KafkaException(error)
        return found
    finally:
        reader.close()


def parse_position(key: bytes | None, value: bytes | None) -> Positions:
    """Read one record of the offsets topic; nothing for other connectors, tombstones and anything else."""
    if key is None or value is None:
        return {}
    try:
        found = position(key, value, SOURCE_CONNECTOR)
    except UntrustedError:
        return {}  # whoever may write there could else stop every restart
    if found is None:
        return {}
    topic, partition, offset = found
    # Connect has the last record that was copied; the next one is what a consumer group would commit.
    return {(topic, partition): offset + 1}


def mirror_lag(source: Any, positions: Positions, patterns: Iterable[str], seconds: float) -> int:
    """Return how many records of the topics that a pattern matches lie behind the positions.

    ``source`` is an admin client of the source cluster. A partition without a position is behind by all of
    it.
    """
    compiled = [re.compile(pattern) for pattern in patterns]
    topics = source.list_topics(timeout=seconds).topics
    asked = [
        TopicPartition(name, number)
        for name, topic in topics.items()
        if any(pattern.fullmatch(name) for pattern in compiled)
        for number in topic.partitions
    ]
    if not asked:
        return 0
    ends = {
        (p.topic, p.partition): answer.result(seconds).offset
        for p, answer in source.list_offsets({tp: OffsetSpec.latest() for tp in asked}).items()
    }
    starts = {
        (p.topic, p.partition): answer.result(seconds).offset
        for p, answer in source.list_offsets({tp: OffsetSpec.earliest() for tp in asked}).items()
    }
    return sum(max(0, end - max(starts[at], positions.get(at, 0))) for at, end in ends.items())
