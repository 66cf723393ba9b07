"""The environment of a Streams instance: heap, RocksDB bound, the limits of its unit."""

from __future__ import annotations

import math
from typing import Final

from sizing.core import jvm
from sizing.core.service import put_stop
from sizing.core.settings import MIB, Basis, Choice, Setting, Sheet
from sizing.core.values import int_or_zero
from sizing.core.variables import basis_of
from sizing.streams import memory as streams_memory
from sizing.streams.memory import FLOOR_MIB, MEMTABLE_SHARE, WRITE_BUFFER_MIB, InstanceState
from sizing.streams.properties import ARTICLE, BENCH, CONFIG, GUIDE, MEASURED, UNIT, App
from sizing.streams.variables import StreamsApp

DOCUMENTED_BOUND_MIB: Final = 4096  # "less than 4GB"
_BASE_HEAP_MIB: Final = 256
_THREAD_HEAP_MIB: Final = 32  # a thread's share of the record cache, and what it works on
HOST_MIB: Final = 512  # the system itself


def plan_memory(sheet: Sheet, app: App, state: InstanceState, buffers: int) -> int:
    """Plan heap, RocksDB bound and the unit's limits; return the memory of the instance in MiB."""
    spec = app.variables
    environment = f"{app.folder}/environment"
    heap = _heap(sheet, app, environment, buffers)
    logs = f"/var/log/{UNIT}/{app.name}"
    flags = Choice(
        f"{jvm.KAFKA_G1} {jvm.gc_log(logs, app.java)}",
        "the flags of Kafka's own start script",
        "kafka-run-class.sh of Kafka 4.3",
        "documented",
    )
    sheet.put(environment, "KAFKA_JVM_PERFORMANCE_OPTS", "streams.gc", flags)
    sheet.put(
        environment, "LOG_DIR", "streams.logs", Choice(logs, "one log folder an instance", CONFIG, "derived")
    )
    because = "always holds its present state, by which a deployment knows that it runs"
    sheet.put(environment, "KEDGE_STATE_FILE", "streams.reporter",
              Choice(f"/var/lib/{UNIT}/{app.name}/state.json", because, CONFIG, "derived"))  # fmt: skip
    because = "gets a line a second with the memory of the process and of its stores, for verify.yml"
    sheet.put(environment, "KEDGE_SAMPLES_FILE", "streams.reporter",
              Choice(f"{logs}/samples.jsonl", because, CONFIG, "derived"))  # fmt: skip
    if spec.jemalloc:
        because = "jemalloc gives memory back that RocksDB has freed; glibc keeps it in fragments"
        sheet.put(
            environment, "LD_PRELOAD", "streams.jemalloc", Choice(spec.jemalloc, because, GUIDE, "derived")
        )
    beside = streams_memory.beside_mib(state)
    room = (app.facts.memory_mib - HOST_MIB) // spec.instances_per_host
    room = min(room, spec.memory_mib or room) - heap - beside
    bound = _rocksdb(sheet, app, state, room) if spec.stores else 0
    sheet.rest_of_own(environment, "streams.own")
    needed = heap + bound + beside
    because = (
        f"heap of {heap} MiB, RocksDB of {bound} MiB and {beside} MiB beside them for {state.databases} "
        "databases, threads and the JVM: iterators, pinned blocks, table readers and the allocator's "
        "fragments lie outside of the bound"
    )
    closes = "it closes its stores: since 4.3 their offsets are in RocksDB, and what is killed restores them"
    put_stop(
        sheet,
        app.dropin,
        "streams_app",
        spec.stop_seconds,
        closes,
        "Kafka Streams and RocksDB facts",
        basis_of(StreamsApp, "stop_seconds", spec.stop_seconds, "estimate"),
    )
    if spec.memory_mib is None:
        sheet.put(
            app.dropin, "MemoryMax", "streams.memory", Choice(f"{needed}M", because, MEASURED, "estimate")
        )
    else:
        _limited(sheet, app, spec.memory_mib, needed, because)
    because = f"four times the 7.4 descriptors that each of {state.databases} databases was seen to hold"
    sheet.put(
        app.dropin,
        "LimitNOFILE",
        "streams.descriptors",
        Choice(streams_memory.descriptors(state), because, MEASURED, "estimate"),
    )
    return spec.memory_mib or needed


def _limited(sheet: Sheet, app: App, limit: int, needed: int, because: str) -> None:
    """Take the person's limit of an instance, which has to hold what the plan puts into it."""
    because = f"set in the inventory; the plan puts {needed} MiB into it: {because}"
    setting = Setting(
        app.dropin, "MemoryMax", f"{limit}M", "streams.memory", because, "the inventory", "yours"
    )
    sheet.settings.append(setting)
    if limit < needed:
        sheet.error(
            "streams.memory.limit",
            f"streams_app_memory_mib is {limit}, and heap, RocksDB and what lies beside them take {needed} "
            "MiB: the kernel would end the process",
            f"set it to {needed} or more, or lower streams_app_heap_mib or streams_app_rocksdb_mib",
        )


def _heap(sheet: Sheet, app: App, file: str, buffers: int) -> int:
    threads = app.threads
    buffered = math.ceil(buffers / MIB)
    stores = app.variables.stores
    # A thread that restores reads its changelogs, and nothing else.
    partitions = max(
        streams_memory.partitions_read(stores, app.carriers, threads),
        streams_memory.changelogs_of(stores, app.carriers, threads),
    )
    fetched = math.ceil(threads * app.fetches.held(partitions) / MIB)
    planned = math.ceil((_BASE_HEAP_MIB + buffered + fetched + threads * _THREAD_HEAP_MIB) / 64) * 64
    because = (
        f"an estimated {_BASE_HEAP_MIB} MiB, producer buffers of {buffered} MiB, {fetched} MiB fetched "
        f"({threads} threads x {app.fetches.said(partitions)}) and an estimated {_THREAD_HEAP_MIB} MiB for "
        "each thread"
    )
    own = app.variables.heap_mib
    if own is None:
        sheet.put(
            file, "KAFKA_HEAP_OPTS", "streams.heap", Choice(jvm.heap(planned), because, MEASURED, "estimate")
        )
        return planned
    because = f"set in the inventory; the plan would have said {planned} MiB: {because}"
    sheet.settings.append(
        Setting(file, "KAFKA_HEAP_OPTS", jvm.heap(own), "streams.heap", because, "the inventory", "yours")
    )
    if own < buffered + 128:
        sheet.error(
            "streams.heap",
            f"streams_app_heap_mib is {own}, and the producers' buffers alone take {buffered} MiB",
            f"set it to {planned}, or leave it out",
        )
    elif own < buffered + fetched:
        sheet.warning(
            "streams.heap",
            f"streams_app_heap_mib is {own}, and a backlog fills it: producer buffers of {buffered} MiB and "
            f"{fetched} MiB fetched ({threads} threads x {app.fetches.said(partitions)})",
            f"set it to {planned}, or leave it out",
        )
    return own


def _rocksdb(sheet: Sheet, app: App, state: InstanceState, room: int) -> int:
    file = f"{app.folder}/rocksdb.properties"
    spec = app.variables
    floor = math.ceil(state.writing * FLOOR_MIB / MEMTABLE_SHARE / 64) * 64
    measured_because = (
        f"{FLOOR_MIB:g} MiB of memtables for each of {state.writing} databases that take writes, and "
        f"memtables take {MEMTABLE_SHARE:.0%} of the bound"
    )
    measured = max(256, floor)
    basis: Basis = "measured" if measured == floor else "estimate"
    if measured > room >= 64:
        measured = room // 64 * 64
        measured_because = (
            f"what the {'limit' if spec.memory_mib else 'host'} leaves after heap and JVM; "
            f"{measured_because} would be {floor} MiB"
        )
        basis = "derived"
    documented = Choice(
        DOCUMENTED_BOUND_MIB * MIB,
        "less than 4 GB for all stores together",
        f"{ARTICLE}, Offheap memory usage",
        "documented",
    )
    key, rule = "cache.bytes", "streams.rocksdb.bound"
    if spec.rocksdb_mib:
        bound = spec.rocksdb_mib
        because = f"set in the inventory; the plan would have said {measured} MiB: {measured_because}"
        sheet.settings.append(Setting(file, key, str(bound * MIB), rule, because, "the inventory", "yours"))
    else:
        value = sheet.put(file, key, rule, documented, Choice(measured * MIB, measured_because, BENCH, basis))
        bound = int_or_zero(value) // MIB
    memtables = int(bound * MEMTABLE_SHARE)
    each = memtables / max(1, state.writing)
    because = (
        f"{MEMTABLE_SHARE:.0%} of {bound} MiB: {each:.1f} MiB for each of {state.writing} writing databases"
    )
    sheet.put(
        file,
        "memtables.bytes",
        "streams.rocksdb.memtables",
        Choice(memtables * MIB, because, MEASURED, "measured"),
    )
    stock = "Kafka Streams' default"
    buffer = streams_memory.write_buffer_mib(memtables, state)
    sheet.put(
        file,
        "write.buffer.bytes",
        "streams.rocksdb.buffers",
        Choice(WRITE_BUFFER_MIB * MIB, stock, GUIDE, "documented"),
        Choice(
            buffer * MIB,
            f"half a buffer in each of {state.databases} databases is to fit into {memtables} MiB, and one "
            "is no larger than a writing database's share: in 2 GiB, buffers of 4 MiB left 96 percent of "
            "the defaults' throughput, those of 8 MiB 68",
            BENCH,
            "measured",
        ),
    )
    ran = "two ran near the defaults' rate within the bound"
    part = "index and filter blocks keep a part of the cache"
    fixed: tuple[tuple[str, str, str, Basis], ...] = (
        ("high.priority.ratio", "0.1", part, "estimate"),
        ("compaction.style", "UNIVERSAL", stock, "documented"),
        ("compression", "NO_COMPRESSION", stock, "documented"),
    )
    for name, value_of_key, because, basis in fixed:
        sheet.put(file, name, "streams.rocksdb", Choice(value_of_key, because, GUIDE, basis))
    count = Choice(streams_memory.WRITE_BUFFERS, stock, GUIDE, "documented")
    sheet.put(
        file, "write.buffer.count", "streams.rocksdb.buffers", count, Choice(2, ran, MEASURED, "measured")
    )
    return bound
