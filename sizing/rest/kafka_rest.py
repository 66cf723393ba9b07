"""Rules for kafka-rest as Confluent builds it, and for the sandbox that stands in for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from sizing.core.settings import MIB, Choice, Sheet
from sizing.keys.catalogue import numbers
from sizing.rest.checks import check_heap
from sizing.rest.clients import put_client_profile
from sizing.rest.consumers import (
    plan_client_keys,
    plan_consumers,
    plan_producer,
    plan_reading,
    plan_request_bytes,
)
from sizing.rest.jetty import accept_queue_finding, plan_jetty
from sizing.rest.logs import metrics_agent, plan_flood, plan_logs
from sizing.rest.memory import BUFFER_BYTES, GUIDE, number
from sizing.rest.process import Process
from sizing.rest.security import plan_security
from sizing.rest.unit import collectors, put_heap, put_options, put_unit

_RUN: Final = "kafka-rest-run-class"
_CONFIG: Final = "kafka-rest, KafkaRestConfig"
_ARTICLE: Final = "MapR article"
#: zookeeper.connect is in 7.9 and gone in 8.0.
_WITHOUT_ZOOKEEPER: Final = (8, 0)
#: The MapR build of 2.0 carries a rest-utils that knows a port alone.
_LISTENERS: Final = (4, 0)
#: From here on log4j 2; client metrics have no bean unless a reporter is named; clients begin anew (KIP-899).
_CLIENT_OF_4: Final = (8, 0)
_JMX_REPORTER: Final = "org.apache.kafka.common.metrics.JmxReporter"


def plan_process(sheet: Sheet, process: Process) -> None:
    """Plan ``kafka-rest.properties``, the environment and the unit of one process."""
    folder = f"/etc/kafka-rest/{process.port}"
    plan_files(sheet, process, f"{folder}/kafka-rest.properties", f"{folder}/environment")


def plan_files(
    sheet: Sheet, process: Process, properties: str, environment: str, *, mapr: bool = False
) -> None:
    """Plan the files of a build of kafka-rest; ``mapr`` is the build that has no rest-utils of today."""
    variables, workload = process.variables, process.variables.workload
    _identity(sheet, properties, process, mapr=mapr)
    heap_mib = put_heap(sheet, environment, "KAFKAREST_HEAP_OPTS", process)
    threads = plan_consumers(
        sheet,
        properties,
        workload,
        process.stall_s,
        threads_deadlock=mapr,
        subject=f"{variables.distribution} {variables.version}",
    )
    pool = 200
    if not mapr:
        poll_ms = plan_reading(sheet, properties, workload)
        plan_request_bytes(sheet, properties, heap_mib, process.load)
        plan_client_keys(sheet, properties, process.stall_s, small_fetch=process.small_fetch)
        if variables.distribution == "sandbox" or numbers(variables.version) >= _CLIENT_OF_4:
            plan_producer(sheet, properties, workload)
            plan_flood(sheet, properties, "client.metadata.recovery.strategy")
            sheet.put(
                properties,
                "metric.reporters",
                "rest.metrics",
                None,
                Choice(
                    _JMX_REPORTER,
                    "the beans of the Kafka clients inside are there on 8.x only with it, on 7.9 anyway",
                    "REST proxy facts, Observed on running proxies",
                ),
            )
        plan_jetty(sheet, properties, process.requests, process.facts, poll_ms)
        accept_queue_finding(sheet, process.instances)
        planned = {s.key: s.value for s in sheet.settings}
        pool = number(planned.get("thread.pool.max")) or pool
    flags = [] if mapr else plan_security(sheet, properties, process)
    buffer = sheet.put(
        properties,
        "producer.buffer.memory",
        "rest.producer.buffer",
        Choice(
            BUFFER_BYTES,
            f"the default, {BUFFER_BYTES // MIB} MiB for the one producer of a process, "
            f"{100 * BUFFER_BYTES // MIB // heap_mib} percent of its heap of {heap_mib} MiB",
            f"{_ARTICLE}, How to increase the memory buffer",
        ),
    )
    if not mapr:
        put_client_profile(sheet, properties, "", variables)
    check_heap(sheet, heap_mib, process.load, number(buffer) or BUFFER_BYTES)
    _logging(sheet, properties, environment, process)
    _environment(sheet, environment, process, heap_mib, flags)
    put_unit(sheet, process, heap_mib, threads, pool)
    sheet.rest_of_own(environment, "rest.own", variables=True)
    sheet.rest_of_own(properties, "rest.own")


def _identity(sheet: Sheet, file: str, process: Process, *, mapr: bool) -> None:
    variables = process.variables

    def put(key: str, rule: str, documented: Choice | None, measured: Choice | None = None) -> None:
        sheet.put(file, key, f"rest.{rule}", documented, measured)

    put(
        "id",
        "identity",
        Choice(
            process.id,
            "the host's name and the port: unique, and the same whatever hosts come and go",
            f"{GUIDE}, id",
        ),
    )
    by_port = mapr and numbers(variables.version) < _LISTENERS
    put(
        "port" if by_port else "listeners",
        "listeners",
        Choice(
            process.port if by_port else f"{process.scheme}://0.0.0.0:{process.port}",
            f"instance {process.number + 1} of {process.instances} on the host, one port each from "
            f"{variables.first_port} up",
            f"{_ARTICLE}, Run two or more Proxy processes",
        ),
    )
    _advertised(sheet, file, process, mapr=mapr)
    if not mapr or process.servers:
        put(
            "bootstrap.servers",
            "cluster",
            Choice(
                process.servers, f"the brokers of cluster {variables.cluster}", f"{GUIDE}, bootstrap.servers"
            ),
        )
    put(
        "schema.registry.url",
        "schema_registry",
        Choice(
            variables.schema_registry_url,
            "kafka_rest_schema_registry_url"
            if variables.schema_registry_url
            else "empty, which turns it off: the default asks http://localhost:8081, and none is named",
            f"{GUIDE}, schema.registry.url",
        ),
    )
    if variables.zookeeper_connect is None:
        return
    if mapr or numbers(variables.version) < _WITHOUT_ZOOKEEPER:
        put(
            "zookeeper.connect",
            "zookeeper",
            Choice(variables.zookeeper_connect, f"{variables.version} still reads it", f"{_CONFIG} of 7.9"),
        )
    else:
        sheet.warning(
            "rest.zookeeper",
            f"kafka_rest_zookeeper_connect is set, and kafka-rest {variables.version} reads "
            "zookeeper.connect no more",
            "take it out: bootstrap.servers is what 8.0 and later read",
        )


def _advertised(sheet: Sheet, file: str, process: Process, *, mapr: bool) -> None:
    """Plan the URL that a new consumer is told to follow."""
    variables = process.variables
    own = f"{process.scheme}://{process.address}:{process.port}"
    follow = (
        "a consumer lives in one process and follows the URL that it is told, so each instance is "
        "addressable by itself"
    )
    name = Choice(process.address, follow, f"{GUIDE}, host.name")
    if variables.consumers_via == "balancer":
        _advertised_balancer(sheet, file, process, mapr=mapr)
    elif variables.distribution == "sandbox" or mapr or sheet.advice == "documented":
        sheet.put(file, "host.name", "rest.identity", name)
    else:
        sheet.put(file, "advertised.listeners", "rest.identity", Choice(own, follow, _CONFIG))
        sheet.note(
            "rest.identity",
            f"advertised.listeners names each instance by its URL, where {GUIDE} says host.name, which "
            f"kafka-rest {variables.version} still reads and calls deprecated ({_CONFIG})",
            "set advice: documented for host.name",
        )


def _advertised_balancer(sheet: Sheet, file: str, process: Process, *, mapr: bool) -> None:
    url = process.balancer_url
    if mapr:
        sheet.error(
            "rest.consumers_via",
            "kafka_rest_consumers_via is balancer, and the MapR build knows host.name alone, not a URL",
            "write instance, and let clients reach each instance",
        )
    elif url is None:
        sheet.error(
            "rest.consumers_via",
            "kafka_rest_consumers_via is balancer, and the inventory has neither a group rest_balancer nor "
            "kafka_rest_balancer",
            "write instance, or name the balancer",
        )
    else:
        because = (
            "kafka_rest_consumers_via is balancer: consumers reach their process through it, by the home "
            "that it learned"
        )
        sheet.put(
            file,
            "advertised.listeners",
            "rest.identity",
            Choice(url, because, f"{GUIDE}, Deployment and Load Balancing"),
        )


def _logging(sheet: Sheet, properties: str, environment: str, process: Process) -> None:
    """Plan the log; that of a proxy which its package runs stays in the package's folders."""
    variables = process.variables
    place = PurePosixPath(properties).parent
    packaged = place.is_relative_to("/opt")
    old = variables.distribution != "sandbox" and numbers(variables.version) < _CLIENT_OF_4
    logs = str(place.parent / "logs") if packaged else f"/var/log/kafka-rest/{process.port}"
    plan_logs(sheet, environment, "KAFKAREST_LOG4J_OPTS", str(place), logs, variables.log_mib, old=old)


def _environment(
    sheet: Sheet, file: str, process: Process, heap_mib: int, flags: Sequence[tuple[str, str]]
) -> None:
    folder = f"/etc/kafka-rest/{process.port}"
    logs = f"/var/log/kafka-rest/{process.port}"
    agent = metrics_agent(sheet, folder, process)
    put_options(
        sheet,
        file,
        "KAFKAREST_OPTS",
        [
            *flags,
            *(
                [(agent, "kafka_rest_metrics is set: the agent reads the beans without a JMX port")]
                if agent
                else []
            ),
        ],
    )
    documented, measured = collectors(heap_mib, logs, process.load)
    sheet.put(file, "KAFKAREST_JVM_PERFORMANCE_OPTS", "rest.gc", documented, measured)
    sheet.put(
        file,
        "LOG_DIR",
        "rest.logs",
        Choice(logs, "one log folder an instance: two processes must not write to one file", _RUN),
    )
    sheet.put(
        file,
        "KAFKAREST_JMX_OPTS",
        "rest.jmx",
        Choice(
            "-Dkedge.jmx=off",
            "any value that opens no port: the start script's own opens a random one on all interfaces",
            _RUN,
        ),
    )
