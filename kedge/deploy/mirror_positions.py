"""How far mirrors have come, and where one begins that takes over from another.

MirrorMaker 2 commits no consumer group: it keeps offsets in a topic of its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kedge.deploy.kafka_admin import TIMEOUT_SECONDS
from kedge.evidence.border.cluster import position
from kedge.evidence.border.untrusted import UntrustedError
from kedge.plan.compact_names import fold

SOURCE_CONNECTOR = "MirrorSourceConnector"

Positions = dict[tuple[str, int], int]


def read_positions(client: Mapping[str, Any], topic: str, source: str = "") -> Positions:
    """Return the next source offset of each mirrored partition, from the workers' offsets topic.

    ``source`` is the alias of the cluster whose partitions count; all count without it.

    Raises:
        ConnectionError: when the topic cannot be read to its end within 15 seconds.
    """
    reader = Consumer({**client, "group.id": "kedge-gate", "enable.auto.commit": False,
                       "enable.partition.eof": True, "log_level": 0})  # fmt: skip
    try:
        described = reader.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
        if described.error is not None:
            return {}
        reader.assign([TopicPartition(topic, number, 0) for number in described.partitions])
        found: Positions = {}
        open_partitions = set(described.partitions)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while open_partitions:
            if time.monotonic() >= deadline:
                raise ConnectionError(f"topic {topic} cannot be read to its end")
            for message in reader.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    found |= parse_position(message.key(), message.value(), source)
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise KafkaException(error)
        return found
    finally:
        reader.close()


def parse_position(key: bytes | None, value: bytes | None, source: str = "") -> Positions:
    """Read one record of the offsets topic; nothing for other connectors, tombstones and anything else."""
    if key is None or value is None:
        return {}
    try:
        found = position(key, value, SOURCE_CONNECTOR, source)
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
    return sum(
        max(0, end - max(first, positions.get(at, 0)))
        for at, (first, end) in bounds(source, patterns, seconds).items()
    )


@dataclass(frozen=True, slots=True)
class Taken:
    """Where a flow begins that takes over, and how many records lie behind that; or why it must not.

    ``unknown`` are partitions with records of which nobody has a position.
    """

    positions: Positions
    behind: int = 0
    uncovered: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def bounds(source: Any, patterns: Iterable[str], seconds: float) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the first offset and the end of each partition of the topics that a pattern matches."""
    compiled = [re.compile(pattern) for pattern in patterns]
    asked = [
        TopicPartition(name, number)
        for name, topic in source.list_topics(timeout=seconds).topics.items()
        if any(pattern.fullmatch(name) for pattern in compiled)
        for number in topic.partitions
    ]
    if not asked:
        return {}
    first, last = (
        {
            (p.topic, p.partition): answer.result(seconds).offset
            for p, answer in source.list_offsets(dict.fromkeys(asked, spec)).items()
        }
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    return {at: (first[at], last[at]) for at in last}


def taken(
    theirs: Positions,
    ours: Positions,
    partitions: Mapping[tuple[str, int], tuple[int, int]],
    there: Collection[str],
    reset: str = "",
    leave_out: Collection[str] = (),
) -> Taken:
    """Return where a flow begins that takes over from a mirror.

    What is before the position of either is on the target, so the later of the two counts: ours is of a take
    over that failed. A position beyond the end is of a topic that was made anew, and is none.

    Args:
        theirs: positions of the predecessor.
        ours: positions that the flow has already.
        partitions: first offset and end of each partition of the flow's topics.
        there: the topics of the source that no other flow takes over.
        reset: ``earliest`` or ``latest``: where the predecessor begins without a position.
        leave_out: topics that nobody is to mirror.
    """
    mirrored = {topic for topic, _ in partitions}
    uncovered = {topic for topic, _ in theirs} & {*there} - mirrored - {*leave_out}
    found: Positions = {}
    unknown = []
    for at, (first, end) in partitions.items():
        known = [p for p in (theirs.get(at, -1), ours.get(at, -1)) if 0 <= p <= end]
        if known:
            found[at] = max(first, *known)
        elif first < end and not reset:
            unknown.append(f"{at[0]}-{at[1]}")
        elif reset:
            found[at] = end if reset == "latest" else first
    behind = sum(partitions[at][1] - position for at, position in found.items())
    return Taken(found, behind, tuple(sorted(uncovered)), tuple(unknown))


def refusal(one: Taken, flow: str, whose: str) -> str:
    """Return why a flow must not take over at these positions, with what to do; nothing where it may."""
    if one.uncovered:
        topics = ", ".join(one.uncovered)
        return (
            f"{whose} has positions of {topics}, which no topics of flow {flow} match: nobody would mirror "
            f"them any more. Add them to mirror_maker_flows.{flow}.topics, or name them in "
            f"mirror_maker_adopt.{flow}.leave_out"
        )
    if one.unknown:
        return (
            f"{whose} has no position of {fold(one.unknown)}, which have records: they would be copied from "
            "the beginning, or left out. Set mirror_maker_adopt."
            f"{flow}.offset_reset to auto.offset.reset of its consumer, or take topics that it does not "
            f"mirror out of mirror_maker_flows.{flow}.topics until it is taken over"
        )
    return ""
