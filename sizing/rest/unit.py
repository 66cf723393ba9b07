"""What every distribution of the REST proxy shares: heap, collector and the limits of its unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from sizing.core import jvm
from sizing.core.service import put_stop
from sizing.core.settings import MIB, Basis, Choice, Sheet
from sizing.core.variables import basis_of
from sizing.rest.distribution import RestProcess
from sizing.rest.memory import (
    GUIDE,
    HEAP_LIMIT_MIB,
    MEASURED,
    REAL,
    ProcessWorkload,
    cached_buffers,
    documented_heap,
    measured_heap,
    resident_limit,
)
from sizing.rest.variables import KafkaRest

_REGIONS: Final = 2048  # G1 aims at about this many regions; OpenJDK, G1 ergonomics
_GUIDE_REGION_MIB: Final = 16

#: Descriptors of a process without clients (jars, logs, connections to brokers), and of a consumer instance.
_DESCRIPTORS: Final = 1000
_CONSUMER_DESCRIPTORS: Final = 5
#: Threads of a process without clients, measured.
_THREADS: Final = 38
#: What a unit may write to the journal.
_JOURNAL_S: Final = 30
_JOURNAL_LINES: Final = 2000


def heaps(process: RestProcess) -> tuple[Choice, Choice]:
    """Return the heap in MiB, the documented and the measured one."""
    return documented_heap(process.load.consumers), measured_heap(process.load)


def put_heap(sheet: Sheet, file: str, key: str, process: RestProcess) -> int:
    """Plan the heap under a variable of its own; return it in MiB."""
    documented, measured = heaps(process)
    forms = [
        Choice(jvm.heap(int(form.value or 0)), form.because, form.source, form.basis)
        for form in (documented, measured)
    ]
    given, planned = process.variables.heap_mib, measured if sheet.advice == "measured" else documented
    heap_mib = written_heap(sheet, key, int(measured.value or 0)) or given or int(planned.value or 0)
    if given:
        sheet.give(key, jvm.heap(given))
    sheet.put(file, key, "rest.heap.consumers", *forms)
    return heap_mib


def written_heap(sheet: Sheet, key: str, advised_mib: int) -> int | None:
    """Return the heap in MiB that a person's own flags come to; None where there are none.

    Flags that set no heap are an error, and come to what is advised.
    """
    flags = sheet.own(key)
    if flags is None:
        return None
    mib = jvm.maximum_heap_mib(flags)
    if mib is None:
        sheet.error(
            "rest.heap.consumers",
            f"{key} is {flags!r} and sets no -Xmx: the process would take a quarter of the host's memory",
            f"write both -Xms and -Xmx, such as {jvm.heap(advised_mib)}",
        )
    return mib or advised_mib


def check_heap(sheet: Sheet, heap_mib: int, load: ProcessWorkload, buffer_bytes: int) -> None:
    """Find a heap that is too large to pause shortly, or too small for what it has to hold."""
    if heap_mib > HEAP_LIMIT_MIB:
        sheet.warning(
            "rest.heap.limit",
            f"a heap of {heap_mib} MiB is above {HEAP_LIMIT_MIB}: its pauses cause time-outs of requests and "
            f"disconnected consumers ({GUIDE}, JVM)",
            "leave the heap to the plan, or raise kafka_rest_instances_per_host",
        )
    needed = measured_heap(load) if sheet.advice == "measured" else documented_heap(load.consumers)
    if heap_mib < int(needed.value or 0):
        sheet.warning(
            "rest.heap.consumers",
            f"a heap of {heap_mib} MiB is below the {needed.value} MiB that the workload asks for: "
            f"{needed.because}",
            f"set kafka_rest_heap_mib to {needed.value}, or take it out"
            if int(needed.value or 0) <= HEAP_LIMIT_MIB
            else "take kafka_rest_heap_mib out: the plan splits a process that needs more than "
            f"{HEAP_LIMIT_MIB} MiB",
        )
    bodies = load.requests.body_bytes / MIB
    if bodies > heap_mib >= int(needed.value or 0):
        sheet.error(
            "rest.heap.bodies",
            f"{load.requests.concurrent} requests of {load.requests.bytes_each} bytes are in flight "
            f"together, "
            f"{bodies:.0f} MiB as text and records, and the heap of {heap_mib} MiB by {GUIDE} has no "
            "part for them",
            f"send fewer records in a request, spread the load over {math.ceil(bodies / heap_mib) + 1} times "
            "as many processes, or leave advice at measured, which counts them",
        )
    if buffer_bytes >= heap_mib * MIB:
        sheet.error(
            "rest.producer.buffer",
            f"producer.buffer.memory is {buffer_bytes} bytes, and the whole heap has {heap_mib * MIB}",
            f"set producer.buffer.memory to {heap_mib * MIB // 4} or less, or give the process more heap",
        )
    elif buffer_bytes > heap_mib * MIB // 2:
        sheet.warning(
            "rest.producer.buffer",
            f"producer.buffer.memory is {buffer_bytes} bytes, more than half of the heap of {heap_mib} MiB: "
            "nothing is left for consumers and requests",
            f"set producer.buffer.memory to {heap_mib * MIB // 4} or less",
        )


def collectors(heap_mib: int, logs: str, load: ProcessWorkload, release: int | None) -> tuple[Choice, Choice]:
    """Return the flags of the collector, of buffers and of its log, the guide's and the measured ones."""
    flags, source = f"{jvm.REST_G1} {jvm.gc_log(logs, release)}", f"{MEASURED}, Garbage collectors"
    documented = Choice(flags, "the G1 flags of the guide", f"{GUIDE}, JVM", "documented")
    measured = documented
    if heap_mib < _REGIONS * _GUIDE_REGION_MIB:
        regions = heap_mib // _GUIDE_REGION_MIB
        measured = Choice(
            flags.replace(f"-XX:G1HeapRegionSize={_GUIDE_REGION_MIB}M ", ""),
            f"the guide's G1 flags without the region size: regions of {_GUIDE_REGION_MIB} MiB would leave "
            f"{regions} of the {_REGIONS} that G1 aims at, for 65 to 80 percent more pauses; without it, "
            "records/s were 1.1 times as many, within the spread",
            f"{source}; {REAL}, The advice on a fleet",
            "measured",
        )
    buffers = cached_buffers(load)
    if buffers is not None:
        because = f"{measured.because}; {buffers.because}"
        measured = Choice(
            f"{measured.value} {buffers.value}", because, f"{source}; {buffers.source}", "measured"
        )
    return documented, measured


def put_options(sheet: Sheet, file: str, key: str, flags: Sequence[tuple[str, str]]) -> None:
    """Plan a variable of further JVM flags, each with its reason; a person's own value needs them too."""
    if not flags:
        return
    own = sheet.own(key)
    for flag, because in flags:
        if own is not None and flag not in own:
            sheet.error(
                "rest.options",
                f"{key} is set in kafka_rest_settings, and leaves out {flag.partition('=')[0]}: {because}",
                f"add {flag} to it, or take {key} out",
            )
    because = "; ".join(because for _, because in flags)
    value = " ".join(flag for flag, _ in flags)
    sheet.put(file, key, "rest.options", Choice(value, because, "kafka-rest-run-class", "derived"))


def put_unit(sheet: Sheet, process: RestProcess, heap_mib: int, consumer_threads: int, pool: int) -> None:
    """Plan the limits of the process's unit: memory, file descriptors, threads."""
    file = f"/etc/systemd/system/kafka-rest@{process.port}.service.d/10-kedge.conf"
    load = process.load
    put_stop(
        sheet,
        file,
        "kafka_rest",
        process.variables.stop_seconds,
        "stopping took 0.05 to 0.4 s idle, 54 s with a call to brokers that are down; beyond it clients "
        "wait for nothing",
        "REST proxy facts, Observed on running proxies",
        basis_of(KafkaRest, "stop_seconds", process.variables.stop_seconds, "estimate"),
    )
    limit = resident_limit(heap_mib, load)
    sheet.put(
        file,
        "MemoryMax",
        "rest.memory.limit",
        None,
        Choice(f"{limit.value}M", limit.because, limit.source, limit.basis),
    )
    # All of the host's: descriptors and threads that are not used cost nothing.
    connections, each = process.variables.workload.connections or 0, load.connection
    needed = _DESCRIPTORS + _CONSUMER_DESCRIPTORS * load.consumers + each.descriptors * 2 * connections
    produced = f"; {each.source}" if each.source else ""
    least = process.variables.open_files
    basis: Basis = "estimate"
    if needed <= least:
        basis = basis_of(KafkaRest, "open_files", least, "documented")
    sheet.put(
        file,
        "LimitNOFILE",
        "rest.files",
        Choice(
            max(least, needed),
            f"{_DESCRIPTORS}, {_CONSUMER_DESCRIPTORS} for each of {load.consumers} consumer instances and "
            f"{each.descriptors} for each of {2 * connections} connections are {needed}; {least}, as the "
            "package's unit has it, at least",
            f"confluent-kafka-rest.service; {MEASURED}, Memory per consumer instance{produced}",
            basis,
        ),
    )
    for key, value in (
        ("LogRateLimitIntervalSec", f"{_JOURNAL_S}s"),
        ("LogRateLimitBurst", str(_JOURNAL_LINES)),
    ):
        sheet.put(
            file,
            key,
            "rest.logs.journal",
            Choice(
                value,
                f"{_JOURNAL_LINES} lines in {_JOURNAL_S} s reach the journal, which all services share: a "
                "start writes a few hundred; a flood goes on in the instance's own log, which is bounded",
                "systemd.exec(5), LogRateLimitIntervalSec=",
                "estimate",
            ),
        )
    threads = _THREADS + load.consumers + consumer_threads + pool + connections * each.threads
    producing = f", {connections * each.threads} of producers" if each.threads else ""
    sheet.put(
        file,
        "TasksMax",
        "rest.threads",
        Choice(
            max(512, math.ceil(2 * threads / 100) * 100),
            f"{_THREADS} threads of the process, one for each of {load.consumers} consumer instances, "
            f"{consumer_threads} that read{producing} and {pool} of the server are {threads}; "
            "twice that, 512 at least",
            f"{MEASURED}, Memory per consumer instance{produced}",
            "estimate",
        ),
    )
