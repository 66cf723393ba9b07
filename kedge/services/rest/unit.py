"""The limits of a REST proxy's unit: memory, open files, threads, and how long it may take to stop."""

from __future__ import annotations

import math
from typing import Final

from kedge.plan.service import put_stop
from kedge.plan.settings import Basis, Choice, Sheet
from kedge.plan.variables import basis_of
from kedge.services.rest.distribution import RestProcess
from kedge.services.rest.logs import plan_journal
from kedge.services.rest.memory import resident_limit
from kedge.services.rest.source_names import MEASURED
from kedge.services.rest.variables import KafkaRest

#: Descriptors of a process without clients (jars, logs, connections to brokers), and of a consumer instance.
_DESCRIPTORS: Final = 1000
_CONSUMER_DESCRIPTORS: Final = 5
#: Threads of a process without clients, measured.
_THREADS: Final = 38


def put_unit(sheet: Sheet, process: RestProcess, heap_mib: int, consumer_threads: int, pool: int) -> None:
    """Plan the limits of the process's unit: memory, file descriptors, threads."""
    file = f"/etc/systemd/system/kafka-rest@{process.port}.service.d/10-kedge.conf"
    load = process.load
    put_stop(
        sheet,
        file,
        "kafka_rest",
        process.variables.stop_seconds,
        "stopping took 0.05 to 0.4 s idle, 54 s with a call to brokers that are down; after that, no "
        "client waits any more",
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
    many = ((_CONSUMER_DESCRIPTORS, load.consumers, "consumer instances"),
            (each.descriptors, 2 * connections, "connections"))  # fmt: skip
    clients = [f"{one} for each of {count} {what}" for one, count, what in many if count]
    said = f"{' and '.join([str(_DESCRIPTORS), *clients])} are {needed}" if clients else (
        f"{_DESCRIPTORS}, and more for each client")  # fmt: skip
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
            f"{said}; {least}, as the package's unit has it, at least",
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
