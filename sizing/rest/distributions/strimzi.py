"""Rules for Strimzi's HTTP bridge as a REST proxy: the same sums under its own keys."""

from __future__ import annotations

from typing import Final

from sizing.core import jvm
from sizing.core.settings import MIB, Choice, Sheet
from sizing.inventory.security import login_of, plan_client
from sizing.keys.catalogue import numbers
from sizing.rest.checks import check_heap
from sizing.rest.clients import put_client_profile
from sizing.rest.logs import plan_flood, plan_logs
from sizing.rest.memory import BUFFER_BYTES, GUIDE, MEASURED, number
from sizing.rest.process import SERVICE, Process
from sizing.rest.security import refuse_listeners
from sizing.rest.unit import collectors, heaps, put_unit

_DOCUMENTATION: Final = "Strimzi HTTP bridge, Configuring HTTP Bridge properties"
#: From here on health and metrics have a port of their own; 8081 by default, so two bridges would clash.
_MANAGEMENT: Final = (1, 0)
_MANAGEMENT_OFFSET: Final = 1000
_POOL: Final = 16
_QUEUE: Final = 1000  # bridge.executor.queue.size


def plan_process(sheet: Sheet, process: Process) -> None:
    """Plan ``application.properties``, the environment and the unit of one bridge."""
    folder = f"/etc/kafka-rest/{process.port}"
    properties, environment = f"{folder}/application.properties", f"{folder}/environment"
    variables, workload = process.variables, process.variables.workload

    def put(key: str, rule: str, value: str | int, because: str, source: str = _DOCUMENTATION) -> str | None:
        return sheet.put(properties, key, f"rest.{rule}", Choice(value, because, source))

    put("bridge.id", "identity", process.id, "the host's name and the port: unique, and never another's")
    put("kafka.bootstrap.servers", "cluster", process.servers, f"the brokers of cluster {variables.cluster}")
    put("http.host", "listeners", "0.0.0.0", "all addresses of the host")  # noqa: S104 - what it shall serve
    put(
        "http.port",
        "listeners",
        process.port,
        f"instance {process.number + 1} of {process.instances} on the host, one port each",
    )
    modern = numbers(variables.version) >= _MANAGEMENT
    if modern:
        put(
            "http.management.port",
            "listeners",
            management_port(process.port),
            f"health and metrics, {_MANAGEMENT_OFFSET} above the instance's port: with the default of 8081 "
            "the second instance would not start",
        )
    put("http.producer.enabled", "api", "true", "clients produce")
    put(
        "http.consumer.enabled",
        "api",
        "true" if workload.consumers else "false",
        f"kafka_rest_workload.consumers is {workload.consumers}",
    )
    put(
        "http.timeoutSeconds",
        "consumer.instance_timeout",
        max(20, 5 * workload.client_pause_ms // 1000),
        f"5 times the {workload.client_pause_ms} ms for which a client may ask for nothing, 20 s at least: "
        "an instance that nobody asks holds its partitions for ever by default",
        f"{_DOCUMENTATION}; {MEASURED}, Groups and restarts",
    )
    if modern:
        _executor(sheet, properties, process)
    buffer = put(
        "kafka.producer.buffer.memory",
        "producer.buffer",
        BUFFER_BYTES,
        f"the default, {BUFFER_BYTES // MIB} MiB for the producer of a process",
        "MapR article, How to increase the memory buffer",
    )
    put_client_profile(sheet, properties, "kafka.", variables)
    login = login_of(sheet, SERVICE, process.security, variables.user, variables.password)
    plan_client(sheet, properties, "kafka.", f"{folder}/cluster-ca.pem", process.security, login)
    refuse_listeners(sheet, variables, "the bridge")
    plan_flood(sheet, properties, "kafka.metadata.recovery.strategy")
    heap_mib = _environment(sheet, environment, process)
    check_heap(sheet, heap_mib, process.load, number(buffer) or BUFFER_BYTES)
    put_unit(sheet, process, heap_mib, _POOL, 0)
    sheet.rest_of_own(environment, "rest.own", variables=True)
    sheet.rest_of_own(properties, "rest.own")


def management_port(port: int) -> int:
    """Return the port of health and metrics of the bridge that serves on ``port``."""
    return port + _MANAGEMENT_OFFSET


def _executor(sheet: Sheet, file: str, process: Process) -> None:
    requests = process.requests
    wanted = requests.concurrent + requests.long_polls
    default = max(4, 2 * process.facts.cores)
    sheet.put(
        file,
        "bridge.executor.pool.size",
        "rest.threads",
        Choice(
            max(default, wanted),
            f"{requests.concurrent} requests in flight and {requests.long_polls} reads each take a thread; "
            f"{default}, the default on {process.facts.cores} cores, at least",
            f"{_DOCUMENTATION}, Tuning the executor service pool",
        ),
    )
    sheet.put(
        file,
        "bridge.executor.queue.size",
        "rest.queue",
        Choice(
            max(_QUEUE, 2 * wanted),
            f"twice the {wanted} that run at once, {_QUEUE}, the default, at least; beyond it clients get "
            "503",
            f"{_DOCUMENTATION}, Tuning the executor service pool",
        ),
    )


def _environment(sheet: Sheet, file: str, process: Process) -> int:
    documented, measured = heaps(process)
    own = process.variables.heap_mib
    sizes = [own or int(choice.value or 0) for choice in (documented, measured)]
    folder = f"/etc/kafka-rest/{process.port}"
    logs = f"/var/log/kafka-rest/{process.port}"
    log_mib = process.variables.log_mib
    plan_logs(sheet, file, "KAFKA_BRIDGE_LOG4J_OPTS", folder, logs, log_mib, old=False)
    forms = []
    for mib, heap, form in zip(sizes, (documented, measured), (0, 1), strict=True):
        flags = collectors(mib, logs, process.load)[form]
        because = f"kafka_rest_heap_mib is {own}" if own else heap.because
        forms.append(
            Choice(
                f"-Xms{mib}m -Xmx{mib}m {flags.value}",
                f"heap: {because}; collector: {flags.because}",
                f"{heap.source}; {GUIDE}, JVM",
            )
        )
    chosen = sheet.put(file, "JAVA_OPTS", "rest.heap.consumers", forms[0], forms[1])
    sheet.put(
        file,
        "LOG_DIR",
        "rest.logs",
        Choice(logs, "one log folder an instance: two processes must not write to one file", _DOCUMENTATION),
    )
    flagged = jvm.maximum_heap_mib(chosen or "")
    if flagged is None:
        sheet.error(
            "rest.heap.consumers",
            f"JAVA_OPTS is {chosen!r} and sets no -Xmx: the process would take a quarter of the host's "
            "memory",
            f"write both -Xms and -Xmx, such as -Xms{sizes[1]}m -Xmx{sizes[1]}m",
        )
    return flagged or sizes[1]
