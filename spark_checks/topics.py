"""A run's topics as a data source of Spark: librdkafka reads ranges of offsets, numpy decodes them.

A task takes a share of the run's records: ranges of offsets of some partitions of one topic. The functions
run in Spark's Python workers, which get them by value and need confluent_kafka, numpy, pandas and pyarrow.
lab/measurements/audit.md has the time beside Spark's own Kafka source, whose tasks take one range each.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, NamedTuple

# Its classes do not say where they come from, so that they cannot be sent to workers one by one.
import confluent_kafka as kafka
import numpy as np
import pyarrow as pa
from pandas.util import hash_array
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kedge.evidence.record import checksum, identities
from kedge.evidence.tables import arrow_schema
from spark_checks.engine.session import ship
from spark_checks.engine.spark_types import TABLES, local_rows

#: Records that are decoded together.
_BATCH: Final = 1 << 15
_ANSWER_S: Final = 15.0
#: A topic that gives nothing for so long, and is not at its end, is not going to.
_SILENT_S: Final = 30.0
#: Stands for a text that is not there.
_NO_HASH: Final = 42
_STAMPS: Final = pa.array([None, "create", "append"])
#: As many keys of generators are kept rather than made for each record.
_KNOWN_NAMES: Final = 1 << 17
_FETCH: Final = {
    # Named, never joined: partitions are assigned, and nothing is committed.
    "group.id": "kedge-audit",
    "log_level": 0,
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    # A log that starts later than the run is a finding of the audit, not a reason to stop.
    "auto.offset.reset": "earliest",
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 64 << 10,
    "fetch.max.bytes": 32 << 20,
    "max.partition.fetch.bytes": 8 << 20,
    "fetch.wait.max.ms": 100,
}
#: What a record is before it is decoded; timestamps are milliseconds, as Kafka has them.
RAW: Final = "partition int, offset long, timestamp_ms long, key binary, value binary"


ship(__name__, "kedge.evidence.record", "kedge.evidence.tables")


class CannotReadError(Exception):
    """A topic that could not be read; the message is one line."""


class Range(NamedTuple):
    """Offsets [start, end) of a partition."""

    partition: int
    start: int
    end: int


@dataclass
class TopicRangeShare(InputPartition):
    """What a task reads of a topic: by which client's keys, and how its records are known.

    Its text has no keys of the client (librdkafka's): a login and a private key may be among them. ``keys``
    is how many keys each producer goes round (verify.load.records), None where it is not known.
    """

    cluster: str
    topic: str
    ranges: tuple[Range, ...]
    client: Mapping[str, Any] = field(repr=False)
    tag: bytes
    keys: int | None


def records_of(spark: SparkSession, shares: Sequence[TopicRangeShare]) -> DataFrame:
    """Return shares of topics as rows of the records table."""
    return _frame(spark, shares, TABLES["records"], decoded)


def raw_records_of(spark: SparkSession, shares: Sequence[TopicRangeShare]) -> DataFrame:
    """Return shares of topics as they are (:data:`RAW`)."""
    return _frame(spark, shares, RAW, raw)


def _frame(spark: SparkSession, shares: Sequence[TopicRangeShare], schema: Any, decode: Any) -> DataFrame:
    if not shares:
        return local_rows(spark, [], schema)

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [*shares]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            assert isinstance(partition, TopicRangeShare)
            return (decode(messages, partition) for messages in _messages(partition))

    class Topics(DataSource):
        # Logins are in the shares: options would stand in Spark's plans.
        @classmethod
        def name(cls) -> str:
            return "kedge_topics"

        def schema(self) -> Any:
            return schema

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Topics)
    return spark.read.format("kedge_topics").load()


def whole(share: TopicRangeShare, starts: Mapping[int, int], ends: Mapping[int, int]) -> TopicRangeShare:
    """Return all that is to be read of a topic; a partition without an end is read to the end it has now.

    Args:
        share: has the topic, and no ranges yet.
        starts, ends: the first offset of each partition, and the one behind the last.

    Raises:
        CannotReadError: when the cluster does not answer for the topic.
    """
    consumer = kafka.Consumer({**share.client, **_FETCH})
    try:
        found = []
        for partition, start in starts.items():
            low, high = _watermarks(consumer, kafka.TopicPartition(share.topic, partition))
            found.append(Range(partition, max(start, low), min(ends.get(partition, high), high)))
    except kafka.KafkaException as error:
        raise CannotReadError(_said(share, error.args[0])) from None
    finally:
        consumer.close()
    return replace(share, ranges=tuple(one for one in found if one.start < one.end))


def _watermarks(consumer: Any, place: Any) -> Any:
    """Return the log's start and end; a leader that has just been elected is asked again."""
    deadline = time.monotonic() + _ANSWER_S
    while True:
        try:
            return consumer.get_watermark_offsets(place, _ANSWER_S)
        except kafka.KafkaException as error:
            moved = error.args[0].code() in (
                kafka.KafkaError.NOT_LEADER_FOR_PARTITION,
                kafka.KafkaError.LEADER_NOT_AVAILABLE,
            )
            if not moved or time.monotonic() > deadline:
                raise
            consumer.poll(0.2)


def cut(shares: Sequence[TopicRangeShare], count: int) -> list[TopicRangeShare]:
    """Return shares of as many records each, about ``count`` of them, one more for each change of topic."""
    records = sum(one.end - one.start for share in shares for one in share.ranges)
    most = max(1, -(-records // count))
    pieces: list[tuple[int, int, Range]] = []
    number, room = 0, most
    for of, share in enumerate(shares):
        for partition, start, end in share.ranges:
            at = start
            while at < end:
                upto = min(end, at + room)
                pieces.append((number, of, Range(partition, at, upto)))
                room -= upto - at
                at = upto
                if not room:
                    number, room = number + 1, most
    return [
        replace(shares[of], ranges=tuple(one for _, _, one in some))
        for (_, of), some in groupby(pieces, key=lambda piece: piece[:2])
    ]


def _messages(share: TopicRangeShare) -> Iterator[list[Any]]:
    """Give the messages of a share, some thousands at a time.

    A partition is done with a message at or behind its end, or where its log ends: what lies before an end
    may be a mark of a transaction, which is no message.
    """
    refused: list[kafka.KafkaError] = []
    consumer = kafka.Consumer({**share.client, **_FETCH, "error_cb": refused.append})
    try:
        ends = {one.partition: one.end for one in share.ranges}
        consumer.assign([kafka.TopicPartition(share.topic, one.partition, one.start) for one in share.ranges])
        heard = time.monotonic()
        while ends:
            got = consumer.consume(_BATCH, 0.2)
            if not got:
                if time.monotonic() - heard > _SILENT_S:
                    raise CannotReadError(_said(share, refused[-1] if refused else None))
                continue
            heard = time.monotonic()
            messages, done = _inside(share, got, ends)
            if messages:
                yield messages
            if done:
                consumer.pause([kafka.TopicPartition(share.topic, partition) for partition in done])
    except kafka.KafkaException as error:
        raise CannotReadError(_said(share, error.args[0])) from None
    finally:
        consumer.close()


def _inside(share: TopicRangeShare, got: list[Any], ends: dict[int, int]) -> tuple[list[Any], set[int]]:
    """Return the messages before their partition's end, and the partitions that are done; they leave ends."""
    messages, done = [], set()
    for message in got:
        error, partition = message.error(), message.partition()
        if error is not None:
            if error.code() != kafka.KafkaError._PARTITION_EOF:
                raise CannotReadError(_said(share, error))
            done.add(partition)
        elif partition in ends:
            left = ends[partition] - message.offset()
            if left > 0:
                messages.append(message)
            if left <= 1:
                done.add(partition)
    for partition in done:
        ends.pop(partition, None)
    return messages, done


def _said(share: TopicRangeShare, error: kafka.KafkaError | None) -> str:
    what = "no answer" if error is None else error.str()
    return f"topic {share.topic} of cluster {share.cluster}: {what}"


def raw(messages: Sequence[Any], share: TopicRangeShare) -> Any:
    """Return messages as rows of :data:`RAW`."""
    del share
    return pa.record_batch({
        "partition": pa.array([message.partition() for message in messages], pa.int32()),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp_ms": pa.array([message.timestamp()[1] for message in messages], pa.int64()),
        "key": pa.array([message.key() for message in messages], pa.binary()),
        "value": pa.array([message.value() for message in messages], pa.binary()),
    })  # fmt: skip


def decoded(messages: Sequence[Any], share: TopicRangeShare) -> Any:
    """Return messages of a topic as rows of the records table."""
    values = [message.value() for message in messages]
    keys = [message.key() for message in messages]
    stamps = np.array([message.timestamp() for message in messages], np.int64).reshape(-1, 2)
    who = identities(share.tag, values)
    ours = ~np.ma.getmaskarray(who.producer)
    actual = np.zeros(len(values), np.int64)
    actual[ours] = [checksum(value) for value, mine in zip(values, ours.tolist(), strict=True) if mine]
    columns = {
        "cluster": pa.repeat(share.cluster, len(messages)),
        "topic": pa.repeat(share.topic, len(messages)),
        "partition": np.array([message.partition() for message in messages], np.int32),
        "offset": np.array([message.offset() for message in messages], np.int64),
        "timestamp_us": stamps[:, 1] * 1000,
        # As librdkafka numbers the types: none, create, append.
        "timestamp_type": _STAMPS.take(pa.array(stamps[:, 0])),
        **{
            name: pa.array(column.data, mask=np.ma.getmaskarray(column))
            for name, column in who._asdict().items()
        },
        "crc_ok": pa.array(actual == who.crc.data, mask=~ours),
        "key_ok": _key_ok(keys, who, ours, share.keys),
        "key_hash": hashes(keys),
        "value_hash": hashes(values),
        "headers_hash": _of_headers([message.headers() for message in messages]),
        "bytes": np.array([0 if value is None else len(value) for value in values], np.int32),
    }
    schema = arrow_schema("records")
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _key_ok(keys: Sequence[bytes | None], who: Any, ours: Any, names: int | None) -> Any:
    """Return whether each key is the one that the generator gave the record, as far as that is known."""
    if not names:
        return pa.nulls(len(keys), pa.bool_())
    given = _given(who.producer.data, who.seq.data % names, names)
    return pa.array(np.array([key == name for key, name in zip(keys, given, strict=True)], bool), mask=~ours)


def _given(producer: Any, number: Any, names: int) -> list[bytes]:
    """Return the keys that the generators gave (verify.load.records)."""
    kinds = np.unique(producer).tolist()
    if names * len(kinds) > _KNOWN_NAMES:
        return [b"%d-%d" % pair for pair in zip(producer.tolist(), number.tolist(), strict=True)]
    all_names = [name for kind in kinds for name in _names(kind, names)]
    at = np.searchsorted(kinds, producer) * names + number
    return [all_names[one] for one in at.tolist()]


@lru_cache(maxsize=64)
def _names(producer: int, count: int) -> list[bytes]:
    return [b"%d-%d" % (producer, number) for number in range(count)]


def hashes(texts: Sequence[bytes | None]) -> Any:
    """Return a hash of 64 bits of each text, SipHash as pandas has it."""
    column = np.empty(len(texts), object)
    column[:] = texts
    found = hash_array(column, categorize=False).view(np.int64)
    found[np.array([text is None for text in texts], bool)] = _NO_HASH
    return found


def _of_headers(headers: Sequence[Sequence[tuple[str, bytes | None]] | None]) -> Any:
    if not any(headers):
        return np.full(len(headers), _NO_HASH, np.int64)
    return hashes([None if not one else b"".join(map(_packed, one)) for one in headers])


def _packed(header: tuple[str, bytes | None]) -> bytes:
    """Return a header so that no other looks the same."""
    name, value = header[0].encode(), header[1]
    return struct.pack(">iq", len(name), -1 if value is None else len(value)) + name + (value or b"")
