"""RocksDB of a Streams instance: the bound of all its stores, memtables, write buffers, compaction."""

from __future__ import annotations

import math
from typing import Final

from kedge.plan.settings import MIB, Basis, Choice, Setting, Sheet
from kedge.plan.values import int_or_zero, value_of
from kedge.services.streams.properties import BENCH, GUIDE, MEASURED, App
from kedge.services.streams.stores import WRITE_BUFFER_MIB, WRITE_BUFFERS, InstanceState
from kedge.services.streams.variables import ARTICLE

DOCUMENTED_BOUND_MIB: Final = 4096  # "less than 4GB"
#: Memtables a writing database. lab.bench.streams: 8 MiB with buffers of 4 MiB left 96 percent of stock's
#: throughput with all segments there. Before there were older ones, and with write buffers of as much, 4 MiB
#: left 92 and 2 MiB 80; with buffers of 16 MiB, 8 MiB left 71, 4 MiB 52, 2 MiB 39 and 1 MiB 6.
_FLOOR_MIB: Final = 8.0
_LEFT: Final = "4 MiB left 92 percent of the defaults' throughput, 2 MiB 80, and 1 MiB starved"
_STARVED_MIB: Final = 4 / 3
#: Share of the bound that memtables may take: 1.5 of 2 GB in the measurement that ran.
_MEMTABLE_SHARE: Final = 0.75


def put_rocksdb(sheet: Sheet, app: App, state: InstanceState, room: int) -> int:
    """Plan the bound of all stores, and what is inside it, in ``room`` MiB; return the bound in MiB."""
    file = f"{app.folder}/rocksdb.properties"
    spec = app.variables
    floor = math.ceil(state.writing * _FLOOR_MIB / _MEMTABLE_SHARE / 64) * 64
    measured_because = (
        f"{_FLOOR_MIB:g} MiB of memtables for each of {state.writing} databases that take writes, and "
        f"memtables take {_MEMTABLE_SHARE:.0%} of the bound: an application within such a bound had three "
        "quarters of the defaults' throughput in its first half minute, 96 percent over a whole one and a "
        "third more later, in less than half of their memory"
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
    memtables = int(bound * _MEMTABLE_SHARE)
    each = memtables / max(1, state.writing)
    because = (
        f"{_MEMTABLE_SHARE:.0%} of {bound} MiB: {each:.1f} MiB for each of {state.writing} writing databases"
    )
    sheet.put(
        file,
        "memtables.bytes",
        "streams.rocksdb.memtables",
        Choice(memtables * MIB, because, MEASURED, "measured"),
    )
    stock = "Kafka Streams' default"
    buffer = write_buffer_mib(memtables, state)
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
    count = Choice(WRITE_BUFFERS, stock, GUIDE, "documented")
    sheet.put(
        file, "write.buffer.count", "streams.rocksdb.buffers", count, Choice(2, ran, MEASURED, "measured")
    )
    return bound


def write_buffer_mib(memtables: float, of: InstanceState) -> int:
    """Return the write buffer for that much memtable memory of all stores, both in MiB: a power of two.

    RocksDB takes a memtable's memory in blocks of an eighth of its write buffer, 1 MiB at most: with larger
    buffers than a writing database has memory for, each holds a block that it hardly fills, and flushes it.
    A database of an older segment keeps what it has not flushed, half a buffer on average: what all of them
    keep has to fit, or those that are written to flush all the time to make room.
    """
    share = min(memtables / max(1, of.writing), 2 * memtables / max(1, of.databases))
    return 1 << math.floor(math.log2(min(WRITE_BUFFER_MIB, max(1.0, share))))


def check_memtables(sheet: Sheet, state: InstanceState) -> None:
    """Find a bound that leaves the databases that take writes less memory than they need."""
    memtables = int_or_zero(value_of(sheet, "memtables.bytes")) / MIB
    if not memtables or not state.writing:
        return
    each = memtables / state.writing
    what = (
        f"{state.writing} databases that take writes have {each:.1f} MiB of memtables each, under the floor "
        f"of {_FLOOR_MIB:g} MiB ({_LEFT}: {BENCH})"
    )
    enough = math.ceil(state.writing * _FLOOR_MIB / _MEMTABLE_SHARE)
    variable = "streams_app_rocksdb_mib"
    fix = f"set {sheet.name(variable)} to {enough}, or use more hosts"
    if each <= _STARVED_MIB:
        sheet.error(
            "streams.rocksdb.floor", f"{what}: it would flush all the time and starve", fix, variable=variable
        )
    elif each < _FLOOR_MIB:
        sheet.warning("streams.rocksdb.floor", f"{what}: expect less throughput", fix, variable=variable)
