"""The stores of a Streams application: databases, changelogs, disk, memory by default, time to restore."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kedge.services.streams.variables import StateStore, StreamsApp

#: RocksDB as Kafka Streams sets it up, 3.9 to 4.4: 3 write buffers of 16 MB and a block cache of 50 MB.
WRITE_BUFFERS: Final = 3
WRITE_BUFFER_MIB: Final = 16
BLOCK_CACHE_MIB: Final = 50
#: Live segments of a windowed store, each a database of its own; one of them takes the writes.
SEGMENTS: Final = 3
_SEGMENT_MIN_MS: Final = 60_000  # a segment is half of the retention, 60 s at least

#: Kafka documentation: segment.bytes and segment.ms of topics; log.retention.check.interval.ms of brokers.
SEGMENT_BYTES: Final = 2**30
SEGMENT_MS: Final = 604_800_000
CHECK_MS: Final = 300_000
#: Restoring from a changelog until it is measured: lab.bench.streams had 88 from a broker on the same
#: machine.
RESTORE_MB_PER_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Kept:
    """What a windowed changelog keeps beyond its window: see :func:`kept_of`.

    Retention takes a segment when its newest record has expired, and looks for them from time to time.

    Attributes:
        additional_ms: windowstore.changelog.additional.retention.ms.
        segment_ms, segment_bytes: after so long, or with so much, a segment is closed.
    """

    additional_ms: int
    segment_ms: int
    segment_bytes: int = SEGMENT_BYTES

    def bytes(self, retention_ms: int, rate: float) -> float:
        """Return the bytes that a partition holds at most of a window kept so long, at ``rate`` bytes/s."""
        closed = rate * (retention_ms + self.additional_ms + CHECK_MS) / 1000
        return closed + min(self.segment_bytes, rate * self.segment_ms / 1000)


def windows_of(stores: Sequence[StateStore]) -> list[int]:
    """Return the different retentions of windowed changelogs, the shortest first."""
    return sorted({s.retention_ms for s in stores if s.changelog and s.retention_ms})


def store_mib(
    partitions: int,
    segments: int = SEGMENTS,
    write_buffers: int = WRITE_BUFFERS,
    write_buffer_mib: float = WRITE_BUFFER_MIB,
    block_cache_mib: float = BLOCK_CACHE_MIB,
) -> float:
    """Return what a store takes without a bound: partitions x segments x (buffers x size + cache)."""
    return partitions * segments * (write_buffers * write_buffer_mib + block_cache_mib)


def segments(store: StateStore) -> int:
    """Return how many live segments a partition of a store has."""
    if store.kind == "key_value":
        return 1
    interval = max(store.retention_ms / 2, _SEGMENT_MIN_MS)
    return min(SEGMENTS, math.ceil(store.retention_ms / interval) + 1)


def stores_of(store: StateStore, *, measured: bool) -> int:
    """Return how many stores an entry keeps: a join keeps two, which the article counts as one."""
    return store.count * (2 if measured and store.kind == "join" else 1)


@dataclass(frozen=True, slots=True)
class InstanceState:
    """The state of one instance, when one host is away.

    Attributes:
        stores, databases, writing: how many stores, RocksDB instances, and those of them that take writes.
        unbounded_mib: what stock RocksDB would come to.
        tasks: partitions of the widest store that the instance carries, standbys included.
    """

    stores: int
    databases: int
    writing: int
    unbounded_mib: float
    tasks: int


def state(stores: Sequence[StateStore], carriers: int, standbys: int, *, measured: bool) -> InstanceState:
    """Return the state of one of ``carriers`` instances among which partitions and standbys are spread."""
    count = databases = writing = tasks = 0
    unbounded = 0.0
    for store in stores:
        number = stores_of(store, measured=measured)
        # A partition and its standby are never on the same instance.
        share = min(store.partitions, math.ceil(store.partitions * (1 + standbys) / carriers))
        each = segments(store) if measured else (1 if store.kind == "key_value" else SEGMENTS)
        count += number
        databases += number * share * each
        writing += number * share
        unbounded += number * store_mib(share, each)
        tasks = max(tasks, share)
    return InstanceState(count, databases, writing, unbounded, tasks)


def partitions_read(stores: Sequence[StateStore], carriers: int, threads: int) -> int:
    """Return how many partitions a thread's consumer reads: of both streams of a join."""
    return sum(
        (2 if store.kind == "join" else 1) * math.ceil(math.ceil(store.partitions / carriers) / threads)
        for store in stores
    )


def changelogs_of(stores: Sequence[StateStore], carriers: int, threads: int) -> int:
    """Return how many partitions of changelogs a thread writes, and reads when it restores."""
    return sum(
        stores_of(store, measured=True) * math.ceil(math.ceil(store.partitions / carriers) / threads)
        for store in stores
        if store.changelog
    )


def restore_bytes(stores: Sequence[StateStore], carriers: int, kept: Kept) -> float:
    """Return what one instance reads at most to restore its stores from their changelogs."""
    total = 0.0
    for store in stores:
        if not store.changelog:
            continue
        partitions = math.ceil(store.partitions / carriers)
        number = stores_of(store, measured=True)
        if store.kind == "key_value":
            share = partitions / store.partitions
            total += number * share * (store.keys or 0) * (store.record_bytes or 0)
        else:
            rate = (store.records_per_s or 0) * (store.record_bytes or 0) / store.partitions
            total += number * partitions * kept.bytes(store.retention_ms, rate)
    return total


def disk_bytes(stores: Sequence[StateStore], carriers: int) -> float:
    """Return what the stores of one instance hold on disk; a record stays until its whole segment is old."""
    total = 0.0
    for store in stores:
        share = math.ceil(store.partitions / carriers) / store.partitions
        number = stores_of(store, measured=True)
        if store.kind == "key_value":
            total += number * share * (store.keys or 0) * (store.record_bytes or 0)
        else:
            seconds = (store.retention_ms + max(store.retention_ms / 2, _SEGMENT_MIN_MS)) / 1000
            total += number * share * seconds * (store.records_per_s or 0) * (store.record_bytes or 0)
    return total


def restore_seconds(app: StreamsApp, carriers: int, kept: Kept) -> float:
    """Return how long one instance restores, at the measured rate or the assumed one."""
    rate = (app.restore_mb_per_s or RESTORE_MB_PER_S) * 1e6
    return restore_bytes(app.stores, carriers, kept) / rate
