"""What a REST proxy carries, and its memory outside the heap, which is in heap.py."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from kedge.plan.settings import MIB, Choice
from kedge.plan.values import int_or_none
from kedge.services.clients import fetches
from kedge.services.clients.fetches import Fetches
from kedge.services.rest.consumers import CONSUMER_PREFIXES, read_bytes, small_fetch_bytes
from kedge.services.rest.producer import BUFFER_BYTES, LARGEST_PLANNED_BUFFER
from kedge.services.rest.source_names import MEASURED
from kedge.services.rest.traffic import ProcessTraffic, buffer_for, requests_of
from kedge.services.rest.variables import KafkaRest

#: The guide, JVM: larger heaps pause too long; more instances instead.
HEAP_LIMIT_MIB: Final = 8192

#: Memory outside the heap: of a proxy without consumer instances, and of each idle one (measurements, "Memory
#: per consumer instance").
_OUTSIDE_MIB: Final = 250
_IDLE_OUTSIDE_MIB: Final = 0.7
#: A reading instance holds 1.25 times its fetches outside it (15 MiB of 12).
_READ_OUTSIDE: Final = 1.25
#: Nobody measured how far what is outside the heap swings.
_OUTSIDE_MARGIN: Final = 1.25

_MOST_BUFFER_BYTES: Final = HEAP_LIMIT_MIB * MIB // 4


@dataclass(frozen=True, slots=True)
class Connection:
    """What a connection that produces takes of a process: threads, descriptors, MiB of heap and beside it.

    ``producer`` says that each has a producer, hence a buffer, of its own.
    """

    threads: int = 0
    descriptors: int = 1
    live_mib: float = 0
    outside_mib: float = 0
    producer: bool = False
    source: str = ""


#: Where one producer serves all: a connection is a descriptor.
SHARED_PRODUCER: Final = Connection()


@dataclass(frozen=True, slots=True)
class ProcessWorkload:
    """What one process carries: its share of the workload, and the client settings that cost memory."""

    consumers: int
    readers: int
    partitions: int
    full_reads: int
    fetches: Fetches
    requests: ProcessTraffic
    request_max_bytes: int
    buffer_bytes: int
    connections: int = 0
    connection: Connection = SHARED_PRODUCER

    @property
    def answers(self) -> int:
        """How many reads are filled to consumer.request.max.bytes at once: all that have a backlog."""
        return max(self.readers, self.full_reads)

    @property
    def fetched_mib(self) -> float:
        """What the fetches of one reader may hold, in MiB."""
        return self.fetches.held(self.partitions) / MIB


def load_of(
    variables: KafkaRest,
    instances: int,
    connection: Connection,
    fetched: Fetches,
    *,
    small_fetch: bool = False,
) -> ProcessWorkload:
    """Return the share of one of ``instances`` processes; ``small_fetch`` bounds its readers' fetches.

    ``fetched`` is how its consumers fetch. Connections are those that it has while another one of the host is
    away.
    """
    w = variables.workload
    connections = math.ceil((w.connections or 0) / max(1, instances - 1))
    # A connection has one request in flight, and its producer holds no more than that.
    held = connections * 2 * w.records_per_request * w.record_bytes
    settings = variables.settings
    own_fetch = any(f"{prefix}{fetches.FETCH}" in settings for prefix in CONSUMER_PREFIXES)
    if small_fetch and not own_fetch:
        fetched = replace(fetched, fetch_bytes=small_fetch_bytes(fetched.brokers))
    return ProcessWorkload(
        consumers=math.ceil(w.consumers / instances),
        readers=math.ceil((w.consumers if w.readers is None else w.readers) / instances),
        partitions=w.partitions,
        full_reads=math.ceil(w.full_reads / instances),
        fetches=fetched,
        requests=requests_of(w, instances),
        request_max_bytes=int_or_none(settings.get("consumer.request.max.bytes"))
        or read_bytes(w.record_bytes),
        # A buffer beyond that is held against the heap, and does not make it grow.
        buffer_bytes=held
        if connection.producer
        else min(
            int_or_none(settings.get("producer.buffer.memory"))
            or buffer_for(w, BUFFER_BYTES, LARGEST_PLANNED_BUFFER),
            _MOST_BUFFER_BYTES,
        ),
        connections=connections,
        connection=connection,
    )


def resident_limit(heap_mib: int, load: ProcessWorkload) -> Choice:
    """Return the resident limit of the unit in MiB: the heap, and what lies outside it with a margin."""
    readers = load.consumers * _IDLE_OUTSIDE_MIB + load.readers * _READ_OUTSIDE * load.fetched_mib
    producers = load.connections * load.connection.outside_mib
    limit = heap_mib + math.ceil((_OUTSIDE_MIB + readers + producers) * _OUTSIDE_MARGIN)
    more = f", {producers:.0f} MiB of {load.connections} producers" if producers else ""
    because = (
        f"{heap_mib} MiB heap, and outside it {_OUTSIDE_MIB} MiB of the JVM and {readers:.0f} MiB of "
        f"{load.consumers} consumer instances, {load.readers} of them reading{more}, with a quarter to spare"
    )
    return Choice(limit, because, f"{MEASURED}, What the plan does with it", "estimate")


def cached_buffers(load: ProcessWorkload) -> Choice | None:
    """Return the flag that bounds what the JVM keeps of readers' buffers outside the heap.

    None where they take less than the JVM itself. The unit's limit counts without it: it was measured once.
    """
    outside = load.readers * _READ_OUTSIDE * load.fetched_mib
    if outside <= _OUTSIDE_MIB:
        return None
    because = (
        f"{load.readers} readers hold {outside:.0f} MiB of buffers outside the heap, more than the "
        f"{_OUTSIDE_MIB} of the JVM itself; with buffers above 256 KiB not kept, 13 MiB of a reader became 5"
    )
    return Choice(
        "-Djdk.nio.maxCachedBufferSize=262144",
        because,
        f"{MEASURED}, Memory per consumer instance",
        "measured",
    )
