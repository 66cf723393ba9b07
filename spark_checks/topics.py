"""A run's topics into the records table by processes of this machine: librdkafka reads, numpy decodes.

A batch of records is looked at together: of each record Python does what only it can, once. The functions run
in workers (engine/workers.py) and depend on confluent_kafka, numpy, pandas and pyarrow alone.
"""

from __future__ import annotations

import shutil
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from pandas.util import hash_array

from evidence.record import CRC, INTENDED_US, MAGIC, MARK, PREFIX_BYTES, PRODUCER, SEQ, run_tag
from evidence.run import Cluster, Run
from evidence.tables import arrow_schema
from spark_checks.engine import workers

#: Shares a core: cores that others use as well end with the rest.
_SHARES_A_CORE: Final = 2
#: Records that are decoded together.
_BATCH: Final = 1 << 15
#: Rows of a row group: its statistics say which blocks of the audit it may hold.
_ROWS: Final = 1 << 17
_ANSWER_S: Final = 15.0
#: A topic that gives nothing for so long, and is not at its end, is not going to.
_SILENT_S: Final = 30.0
#: Stands for a text that is not there.
_NO_HASH: Final = 42
_STAMPS: Final = pa.array([None, "create", "append"])
#: Columns of few values.
_REPEATED: Final = ["cluster", "topic", "partition", "timestamp_type", "producer", "bytes", "headers_hash"]
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


class CannotReadError(Exception):
    """A topic that could not be read; the message is one line."""


class Piece(NamedTuple):
    """Offsets [start, end) of a partition."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class Share:
    """What is read of a topic into one file: by which client's keys, and how its records are known."""

    cluster: str
    topic: str
    pieces: tuple[Piece, ...]
    client: Mapping[str, Any]
    tag: bytes
    keys: int | None
    file: str


def land_here(folder: Path, run: Run, client: Callable[[Cluster, str], Mapping[str, Any]], cores: int) -> int:
    """Write the run's range of all its topics to ``records``, and return how many records it has.

    Files stay apart until all are whole.

    Args:
        folder: of the evidence.
        run: run.json.
        client: gives librdkafka's keys for a cluster and its name, its login among them.
        cores: how many shares are read at the same time.

    Raises:
        CannotReadError: saying which topic, and why.
    """
    made = folder / ".landing"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    try:
        counts = workers.run(cores, read_shares, _shares(made, run, client, cores))
        if not counts:
            # Topics that hold nothing were read all the same: whatever was sent is lost.
            pq.write_table(arrow_schema("records").empty_table(), made / "part-00000.parquet")
        shutil.rmtree(folder / "records", ignore_errors=True)
        made.rename(folder / "records")
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return sum(counts)


def _shares(
    made: Path, run: Run, client: Callable[[Cluster, str], Mapping[str, Any]], cores: int
) -> list[list[Share]]:
    """Return what each task reads: as many records each, a partition in one where that fits."""
    whole, tag = run.written_exactly_once(), run_tag(run.run_id)
    shares, ranges = [], []
    for number, topic in enumerate(run.topics):
        committed = (topic.cluster, topic.topic) in whole
        keys = {
            **client(run.clusters[topic.cluster], topic.cluster),
            **_FETCH,
            "bootstrap.servers": run.clusters[topic.cluster].bootstrap_servers,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
        shares.append(Share(topic.cluster, topic.topic, (), keys, tag, run.keys_per_producer, ""))
        there = _ranges(shares[-1], topic.start_offsets, topic.end_offsets)
        ranges += [(number, piece) for piece in there]
    return [
        [
            replace(shares[number], pieces=pieces, file=str(made / f"part-{task:05}-{number}.parquet"))
            for number, share in groupby(some, key=lambda one: one[0])
            if (pieces := tuple(piece for _, piece in share))
        ]
        for task, some in enumerate(cut(ranges, cores * _SHARES_A_CORE))
    ]


def cut(ranges: Sequence[tuple[int, Piece]], count: int) -> list[list[tuple[int, Piece]]]:
    """Return numbered pieces as that many lists at most, of as many offsets each, in their order."""
    most = -(-sum(piece.end - piece.start for _, piece in ranges) // count)
    found: list[list[tuple[int, Piece]]] = []
    room = 0
    for number, (partition, start, end) in ranges:
        at = start
        while at < end:
            if not room:
                found.append([])
                room = most
            upto = min(end, at + room)
            found[-1].append((number, Piece(partition, at, upto)))
            room -= upto - at
            at = upto
    return found


def _ranges(share: Share, starts: Mapping[int, int], ends: Mapping[int, int]) -> list[Piece]:
    """Return the offsets that are there; a partition without an end is read to the end that it has now."""
    consumer = Consumer(dict(share.client))
    try:
        found = []
        for partition, start in starts.items():
            low, high = consumer.get_watermark_offsets(TopicPartition(share.topic, partition), _ANSWER_S)
            found.append(Piece(partition, max(start, low), min(ends.get(partition, high), high)))
    except KafkaException as error:
        raise CannotReadError(_said(share, error.args[0])) from None
    finally:
        consumer.close()
    return [piece for piece in found if piece.start < piece.end]


def read_shares(shares: Sequence[Share]) -> int:
    """Read what a task is to read, each share into its file, and return how many records that was."""
    return sum(map(_read, shares))


def _read(share: Share) -> int:
    schema, count = arrow_schema("records"), 0
    with pq.ParquetWriter(share.file, schema, compression="zstd", use_dictionary=_REPEATED) as writer:
        held: list[Any] = []
        for messages in _messages(share):
            held.append(decoded(messages, share, schema))
            count += held[-1].num_rows
            if sum(rows.num_rows for rows in held) >= _ROWS:
                writer.write_table(pa.concat_tables(held))
                held = []
        if held:
            writer.write_table(pa.concat_tables(held))
    return count


def _messages(share: Share) -> Iterator[list[Any]]:
    """Give the messages of a share, some thousands at a time.

    A partition is done with a message at or behind its end, or where its log ends: what lies before an end
    may be a mark of a transaction, which is no message.
    """
    refused: list[KafkaError] = []
    consumer = Consumer({**share.client, "error_cb": refused.append})
    try:
        ends = {piece.partition: piece.end for piece in share.pieces}
        consumer.assign([TopicPartition(share.topic, one.partition, one.start) for one in share.pieces])
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
                consumer.pause([TopicPartition(share.topic, partition) for partition in done])
    except KafkaException as error:
        raise CannotReadError(_said(share, error.args[0])) from None
    finally:
        consumer.close()


def _inside(share: Share, got: list[Any], ends: dict[int, int]) -> tuple[list[Any], set[int]]:
    """Return the messages before their partition's end, and the partitions that are done; they leave ends."""
    messages, done = [], set()
    for message in got:
        error, partition = message.error(), message.partition()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
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


def _said(share: Share, error: KafkaError | None) -> str:
    what = "no answer" if error is None else error.str()
    return f"topic {share.topic} of cluster {share.cluster}: {what}"


def decoded(messages: Sequence[Any], share: Share, schema: Any) -> Any:
    """Return messages of a topic as rows of the records table."""
    count = len(messages)
    values = [message.value() for message in messages]
    keys = [message.key() for message in messages]
    stamps = np.array([message.timestamp() for message in messages], np.int64).reshape(-1, 2)
    sizes = np.array([0 if value is None else len(value) for value in values], np.int64)
    known = identities(values, sizes, keys, share.tag, share.keys)
    columns = {
        "cluster": pa.repeat(share.cluster, count),
        "topic": pa.repeat(share.topic, count),
        "partition": np.array([message.partition() for message in messages], np.int32),
        "offset": np.array([message.offset() for message in messages], np.int64),
        "timestamp_us": stamps[:, 1] * 1000,
        # As librdkafka numbers the types: none, create, append.
        "timestamp_type": _STAMPS.take(pa.array(stamps[:, 0])),
        **known,
        "key_hash": hashes(keys),
        "value_hash": hashes(values),
        "headers_hash": _of_headers([message.headers() for message in messages]),
        "bytes": sizes.astype(np.int32),
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def identities(
    values: Sequence[bytes | None], sizes: Any, keys: Sequence[bytes | None], tag: bytes, names: int | None
) -> dict[str, Any]:
    """Return what the prefixes of values say: producer, seq, intended_us, crc, crc_ok, key_ok.

    They are null where a value is no record of the run (evidence.record).

    Args:
        values: of the records.
        sizes: their lengths, an array.
        keys: of the records.
        tag: the run's mark.
        names: how many keys each producer goes round, None where that is not known.
    """
    long = sizes >= PREFIX_BYTES
    heads = [value[:PREFIX_BYTES] for value in values if value is not None and len(value) >= PREFIX_BYTES]
    prefix = np.zeros((len(values), PREFIX_BYTES), np.uint8)
    prefix[long] = np.frombuffer(b"".join(heads), np.uint8).reshape(-1, PREFIX_BYTES)
    mark = np.frombuffer(MAGIC + tag, np.uint8)
    # A number that the columns cannot hold was given by nobody.
    ours = long & (prefix[:, MARK] == mark).all(axis=1)
    ours &= (prefix[:, PRODUCER.start] < 0x80) & (prefix[:, SEQ.start] < 0x80)

    def number(at: slice) -> Any:
        return prefix[:, at].copy().view(f">u{at.stop - at.start}")[:, 0].astype(np.int64)

    producer, seq, intended, crc = (number(at) for at in (PRODUCER, SEQ, INTENDED_US, CRC))
    actual = np.zeros(len(values), np.int64)
    actual[ours] = [
        zlib.crc32(value[PREFIX_BYTES:], zlib.crc32(value[: CRC.start]))
        for value, mine in zip(values, ours.tolist(), strict=True)
        if mine and value is not None
    ]
    found = {"producer": producer, "seq": seq, "crc": crc, "crc_ok": actual == crc}
    key_ok = pa.nulls(len(values), pa.bool_())
    if names:
        given = _given(producer, seq % names, names)
        same = np.array([key == name for key, name in zip(keys, given, strict=True)], bool)
        key_ok = pa.array(same, mask=~ours)
    # A time beyond what the column holds is a damaged value's.
    times = pa.array(intended, mask=~ours | (intended < 0))
    return {
        **{name: pa.array(column, mask=~ours) for name, column in found.items()},
        "intended_us": times,
        "key_ok": key_ok,
    }


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
