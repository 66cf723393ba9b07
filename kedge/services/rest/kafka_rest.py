"""Rules for kafka-rest, whoever built it: what its builds have in common, and where they are told apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from kedge.keys.catalogue import every_key, known_keys
from kedge.plan.hosts import in_url
from kedge.plan.jvm_flags import REST_START, grows_as_measured
from kedge.plan.settings import Choice, Sheet
from kedge.plan.values import int_or_none
from kedge.services.rest.clients import check_start, plan_groups, put_client_profile
from kedge.services.rest.consumers import (
    plan_client_keys,
    plan_consumers,
    plan_fetch,
    plan_pause,
    plan_poll,
    plan_reading,
    plan_request_bytes,
)
from kedge.services.rest.distribution import Jvm, Keys, RestProcess
from kedge.services.rest.heap import check_heap, collectors, put_heap, put_options
from kedge.services.rest.jetty import accept_queue_finding, plan_jetty
from kedge.services.rest.logs import metrics_agent, plan_flood, plan_logs
from kedge.services.rest.producer import plan_batch, plan_buffer, plan_linger, plan_waits
from kedge.services.rest.security import plan_security
from kedge.services.rest.source_names import GUIDE
from kedge.services.rest.traffic import check_requests
from kedge.services.rest.unit import put_unit

_RUN: Final = "kafka-rest-run-class"
_CONFIG: Final = "kafka-rest, KafkaRestConfig"
_ARTICLE: Final = "MapR article"
_HEAP: Final = "KAFKAREST_HEAP_OPTS"
_COLLECTOR: Final = "KAFKAREST_JVM_PERFORMANCE_OPTS"
_JMX_REPORTER: Final = "org.apache.kafka.common.metrics.JmxReporter"


#: What its start script hands to the JVM, and what else it reads.
JVM: Final = Jvm(
    _HEAP,
    (
        _HEAP,
        "KAFKAREST_JMX_OPTS",
        _COLLECTOR,
        "KAFKAREST_LOG4J_OPTS",
        "KAFKAREST_OPTS",
    ),
    "-Xmx256M",
)
ENVIRONMENT: Final = ("CLASSPATH", "JAVA_HOME", "JMX_PORT", "LOG_DIR")
#: What KafkaRestConfig passes on to serializers: their keys under these prefixes, those of TLS with theirs.
_SERIALIZERS: Final = frozenset(
    f"{begin}{name}"
    for begin in ("schema.registry.", "client.", "producer.", "consumer.")
    for name in (*every_key("serializer"), "sasl.jaas.config")
) | frozenset(name for name in every_key("serializer") if name.startswith("schema.registry."))


def catalogue(version: Callable[[str], str], clients: Callable[[str], str]) -> Keys:
    """Return the keys of a build by the version of kafka-rest and of Kafka's clients that it stands for."""
    return Keys("kafka-rest", ("kafka-rest", "rest-utils"), version, clients, more=_SERIALIZERS)


@dataclass(frozen=True, slots=True)
class Build:
    """What tells one build of kafka-rest from another.

    Attributes:
        current: it has the consumers and the rest-utils of today, with Kafka's own clients.
        since_8: it has what came with 8.0: log4j 2, Jetty 12 and clients of Kafka 4, whose metrics have no
            bean unless a reporter is named, and which begin anew (KIP-899).
        listeners: its rest-utils knows listeners, not a port alone.
        advertises: a new consumer can be told any URL, by advertised.listeners.
        deprecates_host_name: it calls host.name deprecated.
    """

    current: bool = True
    since_8: bool = True
    listeners: bool = True
    advertises: bool = True
    deprecates_host_name: bool = True


def plan_kafka_rest(sheet: Sheet, process: RestProcess, build: Build, properties: str = "") -> None:
    """Plan the properties, the environment and the unit of one process.

    The properties lie beside the environment, unless a package reads them from a place of its own.
    """
    folder = f"/etc/kafka-rest/{process.port}"
    properties = properties or f"{folder}/{process.distribution.software.properties}"
    environment = f"{folder}/environment"
    variables, workload = process.variables, process.variables.workload
    _identity(sheet, properties, process, build)
    # What grows was measured with the collector of the plan and of the start script, and of current builds.
    other = not grows_as_measured(sheet.own(_COLLECTOR) or REST_START)
    grows = build.current and not other
    heap_mib = put_heap(sheet, environment, _HEAP, process, grows=grows)
    threads = plan_consumers(
        sheet,
        properties,
        workload,
        process.stall_s,
        threads_deadlock=not build.current,
        subject=f"{variables.distribution} {variables.version}",
    )
    pool = 200
    load = process.load
    plan_request_bytes(
        sheet,
        properties,
        heap_mib,
        load.request_max_bytes,
        answers=load.answers,
        readers=load.readers,
        fetched_mib=load.fetched_mib,
    )
    if build.current:
        poll_ms = plan_reading(sheet, properties, workload)
        plan_client_keys(sheet, properties)
        plan_fetch(sheet, properties, "consumer.", process.fetches.brokers, small_fetch=process.small_fetch)
        if plan_groups(sheet, properties, process) and workload.consumers:
            plan_poll(sheet, properties, workload)
            if process.distribution.groups.pauses:
                plan_pause(sheet, properties, process.load.consumers)
        if build.since_8:
            plan_linger(sheet, properties, workload)
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
                    "measured",
                ),
            )
        plan_jetty(sheet, properties, process.requests, process.facts, poll_ms)
        accept_queue_finding(sheet, process.instances)
        planned = {s.key: s.value for s in sheet.settings}
        pool = int_or_none(planned.get("thread.pool.max")) or pool
    flags = plan_security(sheet, properties, process, jetty_12=build.since_8) if build.current else []
    buffer = plan_buffer(sheet, properties, workload, heap_mib)
    put_client_profile(sheet, properties, process)
    if build.current:
        if not variables.profile:
            plan_batch(sheet, properties, process.requests, process.facts.round_trip_ms, buffer)
        plan_waits(sheet, properties, "producer.", workload)
    collector = _COLLECTOR if build.current and other else ""
    check_heap(sheet, _HEAP, heap_mib, process.load, buffer, grows=grows, collector=collector)
    check_requests(sheet, workload, buffer, heap_mib, "producer.buffer.memory")
    _logging(sheet, properties, environment, process, build)
    _environment(sheet, environment, process, heap_mib, flags)
    put_unit(sheet, process, heap_mib, threads, pool)
    sheet.rest_of_own(environment, "rest.own", variables=True)
    sheet.rest_of_own(properties, "rest.own")
    check_start(sheet, process)


def _identity(sheet: Sheet, file: str, process: RestProcess, build: Build) -> None:
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
            "derived",
        ),
    )
    put(
        "listeners" if build.listeners else "port",
        "listeners",
        Choice(
            f"{process.scheme}://0.0.0.0:{process.port}" if build.listeners else process.port,
            f"instance {process.number + 1} of {process.instances} on the host, one port each from "
            f"{variables.first_port} up",
            f"{_ARTICLE}, Run two or more Proxy processes",
            "derived",
        ),
    )
    _advertised(sheet, file, process, build)
    if build.current or process.servers:
        put(
            "bootstrap.servers",
            "cluster",
            Choice(
                process.servers,
                f"the brokers of cluster {variables.cluster}",
                f"{GUIDE}, bootstrap.servers",
                "derived",
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
            "derived",
        ),
    )
    if variables.zookeeper_connect is None:
        return
    keys = process.distribution.keys
    if "zookeeper.connect" in known_keys(keys.components[0], keys.version(variables.version)):
        put(
            "zookeeper.connect",
            "zookeeper",
            Choice(
                variables.zookeeper_connect,
                f"{variables.version} still reads it",
                f"{_CONFIG} of 7.9",
                "derived",
            ),
        )
    else:
        sheet.warning(
            "rest.zookeeper",
            f"kafka_rest_zookeeper_connect is set, and {process.distribution.title} {variables.version} no "
            "longer reads zookeeper.connect",
            "take it out: bootstrap.servers is what 8.0 and later read",
            variable="kafka_rest_zookeeper_connect",
        )


def _advertised(sheet: Sheet, file: str, process: RestProcess, build: Build) -> None:
    """Plan the URL that a new consumer is given to follow."""
    variables = process.variables
    own = f"{process.scheme}://{in_url(process.address)}:{process.port}"
    follow = (
        "a consumer lives in one process and follows the URL that it is given, so each instance is "
        "addressable by itself"
    )
    name = Choice(process.address, follow, f"{GUIDE}, host.name", "derived")
    if variables.consumers_via == "balancer":
        because = (
            "kafka_rest_consumers_via is balancer: consumers reach their process through it, by the "
            "owning instance that it keeps"
        )
        _advertised_balancer(sheet, file, process, build, because)
        return
    if variables.consumers_via is None and build.advertises and sheet.advice != "documented":
        url = process.balancer_url
        if url and process.balancer_keeps and _speaks_as(process, url):
            because = (
                "consumers reach their process through the balancer, by the owning instance that it keeps, "
                "and a drain sees their requests: a read directly at an instance that stops may get an empty "
                "200, and with auto commit its records can be lost"
            )
            _advertised_balancer(sheet, file, process, build, because)
            return
        if url and not {"advertised.listeners", "host.name"} & variables.settings.keys():
            sheet.warning(
                "rest.consumers_via",
                "consumers read directly at their instance, so that a restart can lose records of clients "
                f"with auto commit: {_why_direct(process, url)}",
                "fix that, or write kafka_rest_consumers_via: instance",
                variable="kafka_rest_consumers_via",
            )
    if not build.deprecates_host_name or sheet.advice == "documented":
        sheet.put(file, "host.name", "rest.identity", name)
    else:
        sheet.put(file, "advertised.listeners", "rest.identity", Choice(own, follow, _CONFIG, "derived"))
        sheet.deviation(
            "rest.identity",
            f"advertised.listeners names each instance by its URL, where {GUIDE} says host.name, which "
            f"kafka-rest {variables.version} still reads and calls deprecated ({_CONFIG})",
            "set advice: documented for host.name",
            "advertised.listeners",
        )


def _speaks_as(process: RestProcess, url: str) -> bool:
    """Return whether kafka-rest tells a URL: it passes over one of another scheme (UrlFactoryImpl)."""
    return url.partition(":")[0] == process.scheme


def _why_direct(process: RestProcess, url: str) -> str:
    if not _speaks_as(process, url):
        return f"kafka-rest tells them no URL of another scheme than its own, and the balancer's is {url}"
    if process.variables.balancer:
        return f"{url} does not keep them to their instance (sticky), or has no drain (kafka_rest_balancer)"
    return f"{url} is one of several balancers, and they share no rest_balancer_address"


def _advertised_balancer(sheet: Sheet, file: str, process: RestProcess, build: Build, because: str) -> None:
    url = process.balancer_url
    if not build.advertises:
        sheet.error(
            "rest.consumers_via",
            f"kafka_rest_consumers_via is balancer, and {process.distribution.title} knows host.name alone, "
            "not a URL",
            "write instance, and let clients reach each instance",
            variable="kafka_rest_consumers_via",
        )
    elif url is None:
        sheet.error(
            "rest.consumers_via",
            "kafka_rest_consumers_via is balancer, and the inventory has neither a group rest_balancer nor "
            "kafka_rest_balancer",
            "write instance, or name the balancer",
            variable="kafka_rest_consumers_via",
        )
    elif not _speaks_as(process, url):
        sheet.error(
            "rest.consumers_via",
            f"kafka_rest_consumers_via is balancer, and {_why_direct(process, url)}",
            "have both speak TLS (kafka_rest_tls, rest_balancer_tls), or neither; or write instance",
            variable="kafka_rest_consumers_via",
        )
    else:
        sheet.put(
            file,
            "advertised.listeners",
            "rest.identity",
            Choice(url, because, f"{GUIDE}, Deployment and Load Balancing", "derived"),
        )


def _logging(sheet: Sheet, properties: str, environment: str, process: RestProcess, build: Build) -> None:
    """Plan the log; that of a proxy which its package runs stays in the package's folders."""
    variables = process.variables
    place = PurePosixPath(properties).parent
    packaged = place.is_relative_to("/opt")
    logs = str(place.parent / "logs") if packaged else f"/var/log/kafka-rest/{process.port}"
    plan_logs(
        sheet, environment, "KAFKAREST_LOG4J_OPTS", str(place), logs, variables.log_mib, old=not build.since_8
    )


def _environment(
    sheet: Sheet, file: str, process: RestProcess, heap_mib: int, flags: Sequence[tuple[str, str]]
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
    documented, measured = collectors(heap_mib, logs, process.load, process.java)
    sheet.put(file, _COLLECTOR, "rest.gc", documented, measured)
    sheet.put(
        file,
        "LOG_DIR",
        "rest.logs",
        Choice(logs, "one log folder an instance: two processes must not write to one file", _RUN, "derived"),
    )
    sheet.put(
        file,
        "KAFKAREST_JMX_OPTS",
        "rest.jmx",
        Choice(
            "-Dkedge.jmx=off",
            "any value that opens no port: the start script's own opens a random one on all interfaces",
            _RUN,
            "documented",
        ),
    )
