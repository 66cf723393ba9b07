"""What every distribution of the REST proxy shares: collector and the limits of its unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from sizing.core import jvm_flags
from sizing.core.service import put_stop
from sizing.core.settings import Basis, Choice, Sheet
from sizing.core.variables import basis_of
from sizing.rest.distribution import RestProcess
from sizing.rest.logs import plan_journal
from sizing.rest.memory import ProcessWorkload, cached_buffers, resident_limit
from sizing.rest.source_names import GUIDE, MEASURED, REAL
from sizing.rest.variables import KafkaRest

_REGIONS: Final = 2048  # G1 aims at about this many regions; OpenJDK, G1 ergonomics
_GUIDE_REGION_MIB: Final = 16

#: Descriptors of a process without clients (jars, logs, connections to brokers), and of a consumer instance.
_DESCRIPTORS: Final = 1000
_CONSUMER_DESCRIPTORS: Final = 5
#: Threads of a process without clients, measured.
_THREADS: Final = 38


def collectors(heap_mib: int, logs: str, load: ProcessWorkload, release: int | None) -> tuple[Choice, Choice]:
    """Return the flags of the collector, of buffers and of its log, the guide's and the measured ones."""
    flags, source = (
        f"{jvm_flags.REST_G1} {jvm_flags.gc_log(logs, release)}",
        f"{MEASURED}, Garbage collectors",
    )
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
    check_options(sheet, key, flags)
    because = "; ".join(because for _, because in flags)
    value = " ".join(flag for flag, _ in flags)
    sheet.put(file, key, "rest.options", Choice(value, because, "kafka-rest-run-class", "derived"))


def check_options(sheet: Sheet, key: str, flags: Sequence[tuple[str, str]]) -> None:
    """Find JVM flags that a person's own value of their variable leaves out."""
    own = sheet.own(key)
    for flag, because in flags:
        if own is not None and flag not in own:
            sheet.error(
                "rest.options",
                f"{key} is set in kafka_rest_settings, and leaves out {flag.partition('=')[0]}: {because}",
                f"add {flag} to it, or take {key} out",
            )


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
    plan_journal(sheet, file)
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
