"""Memory of a Streams instance: heap, RocksDB and what lies beside them, and the limits of its unit."""

from __future__ import annotations

import math
from typing import Final

from kedge.plan import jvm_flags
from kedge.plan.inventory.logins import names_protocol
from kedge.plan.inventory.security import put_java_option
from kedge.plan.service import put_stop
from kedge.plan.settings import MIB, Choice, Setting, Sheet
from kedge.plan.values import int_or_zero
from kedge.plan.variables import basis_of
from kedge.services.host.memory import SYSTEM_MIB
from kedge.services.streams.properties import GUIDE, MEASURED, UNIT, App, threads_of
from kedge.services.streams.rocksdb import put_rocksdb
from kedge.services.streams.stores import InstanceState, changelogs_of, partitions_read
from kedge.services.streams.variables import CONFIG, StreamsApp

_BASE_HEAP_MIB: Final = 256
_THREAD_HEAP_MIB: Final = 32  # a thread's share of the record cache, and what it works on


def put_heap(sheet: Sheet, app: App, file: str, buffers: int) -> int:
    """Plan the heap of an instance whose producers' buffers take so many bytes; return it in MiB."""
    threads = threads_of(app.variables, app.facts)
    buffered = math.ceil(buffers / MIB)
    stores = app.variables.stores
    # A thread that restores reads its changelogs, and nothing else.
    partitions = max(
        partitions_read(stores, app.carriers, threads),
        changelogs_of(stores, app.carriers, threads),
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
        flags = sheet.own("KAFKA_HEAP_OPTS")
        planned = (flags and jvm_flags.maximum_heap_mib(flags, app.facts.memory_mib)) or planned
        sheet.put(
            file,
            "KAFKA_HEAP_OPTS",
            "streams.heap",
            Choice(jvm_flags.heap(planned), because, MEASURED, "estimate"),
        )
        return planned
    because = f"set in the inventory; the plan would have said {planned} MiB: {because}"
    sheet.settings.append(
        Setting(
            file, "KAFKA_HEAP_OPTS", jvm_flags.heap(own), "streams.heap", because, "the inventory", "yours"
        )
    )
    variable = "streams_app_heap_mib"
    if own < buffered + 128:
        sheet.error(
            "streams.heap",
            f"{sheet.name(variable)} is {own}, and the producers' buffers alone take {buffered} MiB",
            f"set it to {planned}, or leave it out",
            variable=variable,
        )
    elif own < buffered + fetched:
        sheet.warning(
            "streams.heap",
            f"{sheet.name(variable)} is {own}, and a backlog fills it: producer buffers of {buffered} MiB "
            f"and {fetched} MiB fetched ({threads} threads x {app.fetches.said(partitions)})",
            f"set it to {planned}, or leave it out",
            variable=variable,
        )
    return own


#: Beside heap and bound: 565 MiB at 576 databases with glibc's allocator (lab.bench.streams), and a quarter
#: more.
_BESIDE_MIB: Final = 256
_BESIDE_MIB_A_DATABASE: Final = 0.8
#: About 2,100 file descriptors with 284 databases.
_DESCRIPTORS_A_DATABASE: Final = 7.4


def plan_memory(sheet: Sheet, app: App, state: InstanceState, buffers: int) -> int:
    """Plan heap, RocksDB bound and the unit's limits; return the memory of the instance in MiB."""
    spec = app.variables
    environment = f"{app.folder}/environment"
    heap = put_heap(sheet, app, environment, buffers)
    logs = f"/var/log/{UNIT}/{app.name}"
    flags = Choice(
        f"{jvm_flags.KAFKA_G1} {jvm_flags.gc_log(logs, app.java)}",
        "the flags of Kafka's own start script",
        "kafka-run-class.sh of Kafka 4.3",
        "documented",
    )
    sheet.put(environment, "KAFKA_JVM_PERFORMANCE_OPTS", "streams.gc", flags)
    if not names_protocol(spec.settings):
        put_java_option(sheet, environment, "KAFKA_OPTS", app.security)
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
    beside = beside_mib(state)
    room = (app.facts.memory_mib - SYSTEM_MIB) // spec.instances_per_host
    room = min(room, spec.memory_mib or room) - heap - beside
    bound = put_rocksdb(sheet, app, state, room) if spec.stores else 0
    sheet.rest_of_own(environment, "streams.own")
    _check_cache(sheet, spec, heap)
    jvm_flags.check_flags(sheet, spec.environment, 8, app.java, "the application's host")
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
        Choice(descriptors(state), because, MEASURED, "estimate"),
    )
    return spec.memory_mib or needed


#: What sets the cache of an application's stores, on its heap: the second is the older name.
_CACHES: Final = ("statestore.cache.max.bytes", "cache.max.bytes.buffering")


def _check_cache(sheet: Sheet, spec: StreamsApp, heap: int) -> None:
    """Find a cache that does not fit into the heap on which it lies."""
    key = next((key for key in _CACHES if key in spec.settings), None)
    cache = int_or_zero(spec.settings.get(key)) if key else 0
    told = any(s.key == "KAFKA_HEAP_OPTS" and s.by == "person" for s in sheet.settings)
    # Of files that say no heap nobody knows it.
    if key and cache >= heap * MIB and sheet.either("planned", "planned" if told else ""):
        sheet.error(
            "streams.cache",
            f"{key} is {cache} bytes, {cache // MIB} MiB, and the heap on which the cache lies has {heap} "
            "MiB: the application runs out of memory as the cache fills",
            f"set {key} to {heap * MIB // 4} or less, or give the application more heap",
            key,
            variable="streams_app_settings",
        )


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
            variable="streams_app_memory_mib",
        )


def beside_mib(of: InstanceState) -> int:
    """Return the memory beside heap and bound: what the cache does not cover, threads and the JVM."""
    return math.ceil(_BESIDE_MIB + _BESIDE_MIB_A_DATABASE * of.databases)


def descriptors(of: InstanceState) -> int:
    """Return the limit of open files: four times what that many databases were seen to open."""
    return max(16_384, math.ceil(4 * _DESCRIPTORS_A_DATABASE * of.databases / 1024) * 1024)
