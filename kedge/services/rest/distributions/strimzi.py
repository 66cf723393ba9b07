"""Rules for Strimzi's HTTP bridge as a REST proxy: the same sums under its own keys."""

from __future__ import annotations

from typing import Final

from kedge.evidence.rest_dialect import Dialect
from kedge.plan import jvm_flags
from kedge.plan.inventory.security import WHY_ALLOWED, java_option
from kedge.plan.settings import MIB, Advice, Choice, Sheet, weakest
from kedge.plan.values import int_or_none
from kedge.plan.version_numbers import numbers
from kedge.services.rest.clients import check_start, plan_groups, put_client_profile
from kedge.services.rest.consumers import plan_fetch, read_bytes
from kedge.services.rest.distribution import (
    Distribution,
    Groups,
    Health,
    Java,
    Jvm,
    Keys,
    RestProcess,
    Signs,
    Software,
    Versions,
)
from kedge.services.rest.heap import as_flags, check_heap, check_options, collectors, heap_of, planned_heap
from kedge.services.rest.logs import plan_flood, plan_logs
from kedge.services.rest.memory import Connection
from kedge.services.rest.producer import BUFFER_BYTES, plan_waits
from kedge.services.rest.security import plan_cluster, refuse_listeners
from kedge.services.rest.source_names import GUIDE, MEASURED, REAL
from kedge.services.rest.traffic import Cost, check_requests, request_bytes
from kedge.services.rest.unit import put_unit

_PROPERTIES: Final = "application.properties"
_HEAP: Final = "JAVA_OPTS"
_LOG: Final = "KAFKA_BRIDGE_LOG4J_OPTS"
_FACTS: Final = "REST proxy facts"
_DOCUMENTATION: Final = "Strimzi HTTP bridge, Configuring HTTP Bridge properties"
#: From here on health and metrics have a port of their own; 8081 by default, so two bridges would clash.
_MANAGEMENT: Final = (1, 0)
_MANAGEMENT_OFFSET: Final = 1000
_CONNECTIONS: Final = f"{REAL}, What a connection that produces takes"
_CONNECTION: Final = Connection(
    threads=1, descriptors=5, live_mib=0.5, outside_mib=0.9, producer=True, source=_CONNECTIONS
)
#: Real proxies, What producing takes.
_COST: Final = Cost(request_us=1060, record_us=17, byte_ns=15)
_LEAST_BUFFER: Final = 4 * MIB
_PRODUCERS: Final = 100
_POOL: Final = 16
#: Records a poll: more were not measured.
_POLLED: Final = 5_000
_QUEUE: Final = 1000  # bridge.executor.queue.size


def _plan(sheet: Sheet, process: RestProcess) -> None:
    """Plan ``application.properties``, the environment and the unit of one bridge."""
    folder = f"/etc/kafka-rest/{process.port}"
    properties, environment = f"{folder}/{_PROPERTIES}", f"{folder}/environment"
    variables, workload = process.variables, process.variables.workload

    def put(key: str, rule: str, value: str | int, because: str) -> None:
        sheet.put(properties, key, f"rest.{rule}", Choice(value, because, _DOCUMENTATION, "derived"))

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
    forgotten = Choice(
        max(20, 5 * workload.client_pause_ms // 1000),
        f"five times the longest pause of a client ({workload.client_pause_ms} ms), and at least 20 s: "
        "an instance that nobody asks holds its partitions for ever by default",
        f"{_DOCUMENTATION}; {MEASURED}, Groups and restarts",
        "estimate",
    )
    sheet.put(properties, "http.timeoutSeconds", "rest.consumer.instance_timeout", forgotten)
    if modern:
        _executor(sheet, properties, process)
    if workload.consumers:
        _reads(sheet, properties, workload.record_bytes)
        plan_fetch(
            sheet, properties, "kafka.consumer.", process.fetches.brokers, small_fetch=process.small_fetch
        )
    buffer = _producers(sheet, properties, process)
    put_client_profile(sheet, properties, process)
    plan_groups(sheet, properties, process)
    plan_waits(sheet, properties, "kafka.producer.", workload)
    plan_cluster(sheet, properties, "kafka.", process)
    refuse_listeners(sheet, process)
    plan_flood(sheet, properties, "kafka.metadata.recovery.strategy")
    heap_mib = _environment(sheet, environment, process)
    check_heap(sheet, _HEAP, heap_mib, process.load, int_or_none(buffer) or BUFFER_BYTES, grows=True)
    check_requests(
        sheet, workload, int_or_none(buffer) or BUFFER_BYTES, heap_mib, "kafka.producer.buffer.memory"
    )
    put_unit(sheet, process, heap_mib, _POOL, 0)
    sheet.rest_of_own(environment, "rest.own", variables=True)
    sheet.rest_of_own(properties, "rest.own")
    check_start(sheet, process)


def _reads(sheet: Sheet, file: str, record_bytes: int) -> None:
    """Plan how many records a read answers: no more bytes than the heap is counted for."""
    counted = read_bytes(record_bytes)
    polled = min(_POLLED, counted // record_bytes)
    sheet.put(
        file,
        "kafka.consumer.max.poll.records",
        "rest.consumer.poll_records",
        Choice(None, "the documents do not name it; Kafka's default is 500", _DOCUMENTATION, "documented"),
        Choice(
            polled,
            f"a read answers one poll: polls of {_POLLED} records of 100 bytes read 18.5 MB/s, of 500, the "
            f"default, 10.2; {polled} of {record_bytes} bytes stay within {counted / MIB:g} MiB",
            f"{REAL}, The advice on a fleet",
            "measured" if polled == _POLLED else "estimate",
        ),
    )


def _producers(sheet: Sheet, file: str, process: RestProcess) -> str | None:
    """Plan the buffer of a producer, of which each connection has one; say where nobody knows how many."""
    workload = process.variables.workload
    request = request_bytes(workload)
    chosen = min(BUFFER_BYTES, max(_LEAST_BUFFER, 2 * request, 2 * workload.record_bytes))
    buffer = sheet.put(
        file,
        "kafka.producer.buffer.memory",
        "rest.producer.buffer",
        Choice(
            BUFFER_BYTES,
            f"the default, {BUFFER_BYTES // MIB} MiB",
            "MapR article, How to increase the memory buffer",
            "documented",
        ),
        Choice(
            chosen,
            f"each connection that produces has a producer, and one request of {request} bytes in flight: "
            f"twice that, {_LEAST_BUFFER // MIB} MiB at least, a batch of 16 KiB for each of 256 partitions; "
            f"with {BUFFER_BYTES // MIB} MiB each, the default, {_PRODUCERS} producers may ask for "
            f"{_PRODUCERS * BUFFER_BYTES // MIB}",
            _CONNECTIONS,
            "estimate",
        ),
    )
    if workload.connections is None and workload.records_per_s:
        connections = "kafka_rest_workload.connections"
        sheet.warning(
            "rest.connections",
            f"each connection that produces takes {_CONNECTION.threads} thread, {_CONNECTION.descriptors} "
            f"descriptors and {_CONNECTION.live_mib + _CONNECTION.outside_mib:g} MiB of the bridge, and "
            f"{sheet.name(connections)} does not say how many there are ({_CONNECTIONS})",
            "say how many connections clients, or the balancers, keep open to a host",
            variable=connections,
        )
    return buffer


def management_port(port: int) -> int:
    """Return the port of health and metrics of the bridge that serves on ``port``."""
    return port + _MANAGEMENT_OFFSET


def _executor(sheet: Sheet, file: str, process: RestProcess) -> None:
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
            "documented" if wanted <= default else "derived" if requests.told else "estimate",
        ),
    )
    sheet.put(
        file,
        "bridge.executor.queue.size",
        "rest.queue",
        Choice(
            max(_QUEUE, 2 * wanted),
            f"twice the {wanted} that run at the same time, {_QUEUE}, the default, at least; beyond it "
            f"clients get "
            "503",
            f"{_DOCUMENTATION}, Tuning the executor service pool",
            "documented" if 2 * wanted <= _QUEUE else "estimate",
        ),
    )


def _environment(sheet: Sheet, file: str, process: RestProcess) -> int:
    """Plan the variables of the start script; return the heap in MiB."""
    own = process.variables.heap_mib
    folder = f"/etc/kafka-rest/{process.port}"
    logs = f"/var/log/kafka-rest/{process.port}"
    plan_logs(sheet, file, _LOG, folder, logs, process.variables.log_mib, old=False)
    heap_mib = planned_heap(sheet, _HEAP, process, grows=True)
    forms = []
    advised: tuple[Advice, ...] = ("documented", "measured")
    allowed = [(flag, WHY_ALLOWED)] if (flag := java_option(process.security)) else []
    check_options(sheet, _HEAP, allowed)
    for form, advice in enumerate(advised):
        advised_heap = heap_of(process.load, advice, grows=True)
        heap = (
            Choice(jvm_flags.heap(own), f"kafka_rest_heap_mib is {own}", advised_heap.source, "derived")
            if own
            else as_flags(advised_heap, process.load, grows=advice == "measured")
        )
        flags = collectors(own or int(advised_heap.value or 0), logs, process.load, process.java)[form]
        forms.append(
            Choice(
                " ".join([str(heap.value), str(flags.value), *(flag for flag, _ in allowed)]),
                "; ".join(
                    [f"heap: {heap.because}", f"collector: {flags.because}", *(why for _, why in allowed)]
                ),
                f"{heap.source}; {GUIDE}, JVM",
                weakest(heap.basis, flags.basis),
            )
        )
    sheet.put(file, _HEAP, "rest.heap.consumers", *forms)
    sheet.put(
        file,
        "LOG_DIR",
        "rest.logs",
        Choice(
            logs,
            "one log folder an instance: two processes must not write to one file",
            _DOCUMENTATION,
            "derived",
        ),
    )
    return heap_mib


def _health_port(version: str, port: int) -> int:
    return management_port(port) if numbers(version) >= _MANAGEMENT else port


def _clients(version: str) -> str:
    return "4.3" if numbers(version) >= _MANAGEMENT else "3.9"


def _java(version: str) -> Java:
    return Java(21 if numbers(version) >= _MANAGEMENT else 17, _FACTS, part=", its HTTP bridge,")


STRIMZI: Final = Distribution(
    name="strimzi",
    title="the bridge",
    versions=Versions((0, 32), (2,), "0.32, 0.33 and 1.x"),
    plan=_plan,
    software=Software(
        ("archive",),
        start="bin/kafka_bridge_run.sh --config-file={file}",
        properties=_PROPERTIES,
        accept_queue=4096,
    ),
    # kafka.KEY goes to every client, kafka.producer.KEY to one.
    keys=Keys("strimzi", ("strimzi",), clients=lambda _: "4.3", prefix="kafka.", shared=("client.", "")),
    java=_java,
    groups=Groups(
        _MANAGEMENT,
        "its clients are those of Kafka 4, to which it passes the key on; nobody tried it here",
        _FACTS,
    ),
    # bin/docker/dynamic_resources.sh of 0.33.1 halves what a JVM would take.
    jvm=Jvm(_HEAP, (_HEAP, _LOG), operated=0.5),
    clients=_clients,
    environment=("LOG_DIR",),
    identity="bridge.id",
    leaves_groups=False,
    health=Health(
        "/ready",
        _health_port,
        "the bridge says that it takes requests, and nothing of its brokers; a record would make a producer "
        "for each check, with its thread and descriptors",
        _CONNECTIONS,
    ),
    connection=_CONNECTION,
    cost=_COST,
    dialect=Dialect(own_commits={"enable.auto.commit": False}, commit_adds=0, max_bytes=False),
    signs=Signs(
        "Strimzi's HTTP bridge",
        ("1.1.0", "0.33.1"),
        r"io\.strimzi\.kafka\.bridge\.Application|kafka_bridge_run\.sh",
        "io.strimzi.kafka.bridge.Application",
        keys=("bridge.id", "http.consumer.enabled", "http.port", "kafka.bootstrap.servers"),
        resource="KafkaBridge",
    ),
)
