"""How fast a topic grows, from its end offsets: of Kafka through the admin API, of MapR through maprcli."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kedge.deploy.kafka_admin import admin

_TIMEOUT_S: Final = 10.0
#: Newest records of a partition from which their size is taken, and how long they may take to come.
_SAMPLE_RECORDS: Final = 20
_SAMPLE_S: Final = 0.5
#: Errors that end by themselves once the new leader is known, and the pause before asking again.
_MOVING: Final = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
_PAUSE_S: Final = 0.1


class WatchError(Exception):
    """Something that the person has to mend; its text is one line: what, where, how."""


@dataclass(frozen=True, slots=True)
class TopicReading:
    """A topic at a moment: the end offset of each partition, and the bytes in it where they are known."""

    at_us: int
    ends: Mapping[int, int]
    sizes: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """What a partition took between two readings; None where it cannot be said."""

    partition: int
    records_per_s: float | None
    mb_per_s: float | None


class TopicSource(Protocol):
    """Where readings of one topic come from; all raise WatchError."""

    def read(self) -> TopicReading:
        """Return the topic as it is now."""

    def record_bytes(self, before: TopicReading, after: TopicReading) -> float | None:
        """Return the mean size of the records between two readings, key and value; None when unknown."""


def rates(before: TopicReading, after: TopicReading, record_bytes: float | None) -> list[Rate]:
    """Return the rate of each partition, in records and in MB of 10^6 bytes per second.

    A partition that is new, or whose end went back (a topic made anew), has no rate.
    """
    seconds = (after.at_us - before.at_us) / 1e6
    found = []
    for partition, end in sorted(after.ends.items()):
        begin = before.ends.get(partition)
        if begin is None or end < begin or seconds <= 0:
            found.append(Rate(partition, None, None))
            continue
        records = (end - begin) / seconds
        megabytes = 0.0 if end == begin else None if record_bytes is None else records * record_bytes / 1e6
        found.append(Rate(partition, records, megabytes))
    return found


def total(of_partitions: list[Rate]) -> tuple[float, float | None]:
    """Return the topic's records/s and MB/s: the sum of what is known, no MB/s where one of them lacks."""
    known = [rate for rate in of_partitions if rate.records_per_s is not None]
    sizes = [rate.mb_per_s for rate in known]
    return (
        sum(rate.records_per_s or 0.0 for rate in known),
        None if None in sizes else sum(size or 0.0 for size in sizes),
    )


class KafkaTopic:
    """A topic of Kafka; the size of its records is that of the newest ones, read by hand without a group."""

    def __init__(self, bootstrap_servers: str, client: Mapping[str, Any], topic: str) -> None:
        config = {"bootstrap.servers": bootstrap_servers, "log_level": 0, **client}
        try:
            self._admin, self._topic = admin(bootstrap_servers, dict(client)), topic
        except ConnectionError as error:
            raise WatchError(str(error)) from error
        # No group is joined: partitions are assigned by hand, and nothing is committed. It also looks the
        # topic up, because an admin client's request would make a missing one where brokers allow that.
        self._consumer = Consumer({**config, "group.id": "kedge-watch-topic", "enable.auto.commit": False})
        try:
            found = self._consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
        except KafkaException as error:
            raise WatchError(f"topic {topic} of {bootstrap_servers}: {error.args[0].str()}") from error
        if found.error is not None:
            raise WatchError(f"topic {topic} of {bootstrap_servers}: {found.error.str()}")

    def read(self) -> TopicReading:
        """Return the end offsets, those of partitions added since included; waits while a leader moves."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                ends = self._ends()
                break
            except KafkaException as error:
                if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                    raise WatchError(f"the end offsets of {self._topic}: {error.args[0].str()}") from error
                time.sleep(_PAUSE_S)
        if not ends:
            raise WatchError(f"topic {self._topic} is not there any more")
        return TopicReading(time.time_ns() // 1000, ends)

    def _ends(self) -> dict[int, int]:
        partitions = self._consumer.list_topics(self._topic, timeout=_TIMEOUT_S).topics[self._topic]
        asked = {TopicPartition(self._topic, p): OffsetSpec.latest() for p in partitions.partitions}
        answers = self._admin.list_offsets(asked, request_timeout=_TIMEOUT_S) if asked else {}
        return {tp.partition: answer.result().offset for tp, answer in answers.items()}

    def record_bytes(self, before: TopicReading, after: TopicReading) -> float | None:
        """Return the mean size of some of the newest records of the partition that grew most."""
        grown = {p: end - before.ends.get(p, end) for p, end in after.ends.items()}
        most = max(grown, key=lambda p: grown[p])
        if grown[most] <= 0:
            return None
        begin = max(before.ends[most], after.ends[most] - _SAMPLE_RECORDS)
        self._consumer.assign([TopicPartition(self._topic, most, begin)])
        read = self._consumer.consume(_SAMPLE_RECORDS, timeout=_SAMPLE_S)
        self._consumer.unassign()
        sizes = [len(m.key() or b"") + len(m.value() or b"") for m in read if m.error() is None]
        return sum(sizes) / len(sizes) if sizes else None


class MaprTopic:
    """A topic of a MapR stream, ``/path:topic``, as maprcli describes it; it says sizes by itself."""

    def __init__(self, name: str, maprcli: str = "maprcli") -> None:
        self._path, colon, self._topic = name.rpartition(":")
        if not colon or not self._path.startswith("/") or not self._topic:
            raise WatchError(f"--topic {name}: a topic of MapR is written /path/of/stream:topic")
        self._maprcli = maprcli

    def read(self) -> TopicReading:
        """Return each partition's ``maxoffset`` and ``logicalsize``."""
        command = [self._maprcli, "stream", "topic", "info"]
        command += ["-path", self._path, "-topic", self._topic, "-json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise WatchError(f"{self._maprcli} cannot be run: {error}; run this on a MapR client") from error
        try:
            answer = json.loads(done.stdout)
            if answer.get("status") != "OK":
                said = "; ".join(str(e.get("desc", e)) for e in answer.get("errors", []))
                raise WatchError(f"maprcli on {self._path}:{self._topic}: {said or 'status is not OK'}")
            rows = answer["data"]
            ends = {int(row["partitionid"]): int(row["maxoffset"]) for row in rows}
            sizes = {int(row["partitionid"]): int(row["logicalsize"]) for row in rows}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            lines = (done.stderr or done.stdout).strip().splitlines() or [repr(error)]
            raise WatchError(
                f"maprcli on {self._path}:{self._topic}: not the answer of topic info ({lines[0]})"
            ) from error
        return TopicReading(time.time_ns() // 1000, ends, sizes)

    def record_bytes(self, before: TopicReading, after: TopicReading) -> float | None:
        """Return the bytes by the records that came; None where expiry took away more than came."""
        records = sum(end - before.ends.get(p, end) for p, end in after.ends.items())
        size = sum((after.sizes or {}).values()) - sum((before.sizes or {}).values())
        return size / records if records > 0 and size >= 0 else None
