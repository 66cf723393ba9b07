"""Findings about a REST proxy: what a person changed, what the workload asks for, what stands around it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from kedge.plan.findings import WITH_INVENTORY
from kedge.plan.settings import KIB, MIB, Sheet
from kedge.plan.values import int_or_none
from kedge.services.clients.fetches import Fetches
from kedge.services.host.variables import HostFacts
from kedge.services.rest.consumers import PAUSE_MS, SHORT_PAUSE_MS
from kedge.services.rest.distribution import Distribution, RestProcess
from kedge.services.rest.environment import check_environment
from kedge.services.rest.keys import check_rest_keys
from kedge.services.rest.source_names import GUIDE, MEASURED
from kedge.services.rest.variables import KafkaRest

#: From what rest.consumer.pause sets to the default, which the guide says to leave alone.
_PAUSES: Final = range(SHORT_PAUSE_MS, PAUSE_MS + 1)
#: Defined and never read: kafka-rest, KafkaRestConfig.
_NO_EFFECT: Final = frozenset(
    {
        "producer.threads",
        "consumer.iterator.timeout.ms",
        "simpleconsumer.pool.size.max",
        "simpleconsumer.pool.timeout.ms",
        "client.timeout.ms",
        "client.init.timeout.ms",
    }
)
_PROTOCOLS: Final = "listener.protocol.map"
#: Measurements, Garbage collectors, at a heap of 1 GB.
_OTHER_COLLECTORS: Final = {
    "-XX:+UseZGC": "it did 42,100 records/s, and requests waited up to 226 ms for memory",
    "-XX:+UseParallelGC": "it stopped for 128 to 158 ms, 21 times for a full collection",
}
_CORES: Final = 16
_LINK_MBIT: Final = 1000  # the guide, Network: 1 GbE
#: The article, About message size.
_LARGE_BYTES: Final = 100 * KIB
_LARGEST_BYTES: Final = 2 * MIB
_MAX_REQUEST_BYTES: Final = MIB  # max.request.size of a producer
#: Where a process can be reached from its own host alone.
_LOOPBACK: Final = re.compile(r"localhost|127[.].*|::1")


def check_settings(sheet: Sheet, distribution: Distribution, variables: KafkaRest) -> None:
    """Find own values that are better left, have no effect, or that this version does not read."""
    own = variables.settings
    key = "consumer.iterator.backoff.ms"
    if key in own and int_or_none(own[key]) not in _PAUSES:
        sheet.warning(
            "rest.dont_touch",
            f"{key} is {own[key]}, outside {SHORT_PAUSE_MS} to {PAUSE_MS} ms: shorter costs up to a core, "
            f"longer costs latency; the guide asks to leave it alone ({GUIDE}, Don't Touch These Settings)",
            f"take {key}{sheet.out}; consumer.receive.buffer.bytes=-1 reads faster for less ({MEASURED}, "
            "Reading)",
            key,
            named=["consumer.receive.buffer.bytes"],
        )
    for key in sorted(own.keys() & _NO_EFFECT):
        sheet.warning(
            "rest.no_effect",
            f"{key} is defined by kafka-rest and never read: it has no effect",
            f"take {key}{sheet.out}",
            key,
        )
    if str(own.get("producer.enable.idempotence", "false")).lower() == "true":
        sheet.warning(
            "rest.forced",
            "producer.enable.idempotence is true, and the proxy sets it to false: a request that is sent "
            "again may be there twice",
            "take producer.enable.idempotence out, and let readers tell a repeated record by its content",
            "producer.enable.idempotence",
        )
    variable_of_flags = next((k for k in ("KAFKAREST_JVM_PERFORMANCE_OPTS", "JAVA_OPTS") if k in own), "")
    flags = str(own.get(variable_of_flags, ""))
    for flag, found in _OTHER_COLLECTORS.items():
        if flag in flags:
            sheet.warning(
                "rest.gc",
                f"{flag} is set: {found}, where G1 did 87,400 records/s with pauses of 28 to 30 ms "
                f"({MEASURED}, Garbage collectors)",
                f"take {flag} out, or hold a run's pauses and throughput against your service levels",
                variable_of_flags,
            )
    if distribution.clients and not distribution.keys.prefix:
        _check_listeners(sheet, own)
        _check_registry(sheet, variables)
    if "JMX_PORT" in own:
        sheet.warning(
            "rest.jmx",
            f"JMX_PORT opens JMX to {sheet.reader.reach(str(own['JMX_PORT']))}, without authentication",
            "take JMX_PORT out, or set KAFKAREST_JMX_OPTS with authentication and TLS",
            "JMX_PORT",
        )
    check_environment(sheet, own, distribution.variables())
    properties = [key for key in own if not key.isupper()]
    asked = [key for key in properties if not key.startswith(tuple(variables.plugin_keys))]
    for finding in check_rest_keys(distribution, variables.version, asked, sheet.where, sheet.reader):
        message = finding.message + sheet.either(f" ({sheet.variable})", "")
        sheet.findings.append(replace(finding, message=message))


_MOST_PORT: Final = 65_535


def _check_listeners(sheet: Sheet, own: Mapping[str, Any]) -> None:
    """Find listeners that rest-utils refuses: RestConfig, constructNamedURI."""
    named = {name.partition(":")[0].strip().lower() for name in str(own.get(_PROTOCOLS, "")).split(",")}
    for listener in filter(None, map(str.strip, str(own.get("listeners", "")).split(","))):
        found = re.fullmatch(r"(?:([A-Za-z][\w+.-]*)://)?[^/]*?(:\d+)?/?", listener)
        scheme, port = (found[1], found[2]) if found else (None, None)
        if scheme and port and scheme.lower() in {"http", "https", *named}:
            _check_port(sheet, listener, port[1:])
            continue
        lacks = "no scheme" if not scheme else "no port" if not port else f"an unknown scheme, {scheme}"
        sheet.error(
            "rest.listeners",
            f"the listener {listener} has {lacks}: the proxy refuses to start",
            "write it as http://0.0.0.0:8082",
            "listeners",
        )


def _check_port(sheet: Sheet, listener: str, port: str) -> None:
    """Find a port that Java refuses, and one that each start chooses."""
    if int(port[:10]) > _MOST_PORT:
        what = f"the listener {listener} has a port above {_MOST_PORT}: the proxy refuses to start"
        sheet.error("rest.listeners", what, "write it as http://0.0.0.0:8082", "listeners")
    elif int(port) == 0:
        what = f"the listener {listener} has port 0: each start takes another one, and no client knows it"
        sheet.error("rest.listeners", what, "write it as http://0.0.0.0:8082", "listeners")


def _check_registry(sheet: Sheet, variables: KafkaRest) -> None:
    """Find addresses of a schema registry that java.net.URL refuses."""
    key, variable = "schema.registry.url", "kafka_rest_schema_registry_url"
    own = variables.settings.get(key)
    for url in filter(None, map(str.strip, str(own or variables.schema_registry_url).split(","))):
        # Asterisks are where a login was, with the scheme before it.
        if re.match(r"[A-Za-z][\w+.-]*://", url) or "${" in url or url.startswith("***"):
            continue
        # An address may hold a login, and without a scheme nothing tells it from another one.
        sheet.error(
            "rest.schema_registry",
            f"an address of {key if own else variable} has no scheme: each request with a schema fails",
            "write http:// or https:// before it",
            *([key] if own else []),
            **({} if own else {"variable": variable}),
        )


def check_bootstrap(sheet: Sheet, cluster: str, servers: str, fetched: Fetches) -> None:
    """Find a single bootstrap server where its cluster has several brokers."""
    if "," in servers or not servers or (fetched.known and fetched.brokers == 1):
        return
    sheet.note(
        "rest.bootstrap",
        f"kafka_clusters.{cluster} has one bootstrap server, {servers}: a proxy that starts while that "
        f"broker is down finds no cluster ({GUIDE}, bootstrap.servers: several, in case one goes down)",
        "name a second broker in its bootstrap_servers, or a name that leads to several",
        variable=f"kafka_clusters.{cluster}.bootstrap_servers",
    )


def check_record(
    sheet: Sheet, distribution: Distribution, variables: KafkaRest, takes: int, *, by_default: bool
) -> None:
    """Find records that the proxy's producer refuses, or its cluster, no topic of which takes more."""
    size, prefix, own = variables.workload.record_bytes, distribution.keys.prefix, variables.settings
    key = f"{prefix}producer.max.request.size"
    request = int_or_none(own.get(key)) or _MAX_REQUEST_BYTES
    if size > request:
        sheet.error(
            "rest.record_bytes",
            f"records have {size} bytes, and the proxy's producer refuses more than {request}",
            f"set {key} to {2 * size}{sheet.inside}, and max.message.bytes of the topics with it",
            key,
        )
    if distribution.streams is not None:  # MapR's streams are no topics of brokers
        return
    cluster = variables.cluster
    takes_bytes = f"kafka_clusters.{cluster}.message_max_bytes"
    if size > takes:
        packed = str(own.get(f"{prefix}producer.compression.type", "none")) != "none"
        report = sheet.warning if packed else sheet.error
        report(
            "rest.record_bytes",
            f"cluster {cluster} takes messages of {takes} bytes{' by default' if by_default else ''}, and "
            f"records have {size}: its brokers refuse them"
            + (", unless they compress so far" if packed else ""),
            f"raise it to {2 * size}, or max.message.bytes of the topics"
            + sheet.either(f" ({takes_bytes} tells the plan)", ""),
            variable=takes_bytes,
        )


def check_workload(sheet: Sheet, variables: KafkaRest, facts: HostFacts) -> None:
    """Find a workload that a proxy carries badly, and a host that is small for it."""
    workload = variables.workload
    if "workload" not in variables.model_fields_set:
        sheet.warning(
            "rest.workload",
            "kafka_rest_workload is not set: heap, memory, threads and the number of instances are planned "
            "for no consumers, and for no known number of records, requests and connections",
            "write kafka_rest_workload with the consumers, records_per_s, record_bytes and connections of a "
            "host while another is down, or {} where that is right",
            variable="kafka_rest_workload",
        )
    if facts.cores < _CORES:
        sheet.note(
            "rest.cores",
            f"the host has {facts.cores} cores; at least {_CORES} are recommended ({GUIDE}, CPUs), fewer "
            "serve a low throughput",
            "compare the measured throughput with the load before giving the host more of it",
            variable="host_cores",
        )
    if facts.link_mbit_per_s is not None and facts.link_mbit_per_s < _LINK_MBIT:
        sheet.note(
            "rest.network",
            f"host_link_mbit_per_s is {facts.link_mbit_per_s}; 1 GbE and 10 GbE are sufficient for most "
            f"applications ({GUIDE}, Network)",
            f"use a link of {_LINK_MBIT} Mbit/s or more, or compare the measured throughput with the load",
            variable="host_link_mbit_per_s",
        )
    size = workload.record_bytes
    article = "MapR article, About message size"
    if size > _LARGEST_BYTES:
        sheet.warning(
            "rest.record_bytes",
            f"records have {size} bytes, above the largest advisable size of {_LARGEST_BYTES} ({article})",
            "send a reference to such a record instead of the record",
            variable="kafka_rest_workload.record_bytes",
        )
    elif size > _LARGE_BYTES:
        sheet.note(
            "rest.record_bytes",
            f"records have {size} bytes: above {_LARGE_BYTES} the throughput falls ({article})",
            "split them, or compare the measured throughput with the load",
            variable="kafka_rest_workload.record_bytes",
        )
    per_request = workload.records_per_request
    if per_request == 1:
        sheet.warning(
            "rest.records_per_request",
            "each request has one record: 2,006 records/s were measured so, 56,400 with 10 in a request "
            f"and 193,000 with 100 ({MEASURED}, Producing)",
            "let clients send arrays of records over a connection that they keep",
            variable="kafka_rest_workload.records_per_request",
        )
    elif per_request >= 1000:
        sheet.note(
            "rest.records_per_request",
            f"{per_request} records in a request: 1,000 gave 1.2 times the throughput of 100 on loopback and "
            "1.8 times on a fleet, and the median answer took 86 ms in place of 14 there "
            f"({MEASURED}, Producing; lab/measurements/real-proxies.md)",
            "let clients send about 100 records in a request",
            variable="kafka_rest_workload.records_per_request",
        )


def check_listeners(sheet: Sheet, process: RestProcess) -> None:
    """Find own listeners at which balancers, probes and clients do not look for the instance."""
    own = {s.key: s.value for s in sheet.settings if s.by == "person"}
    if sheet.reader is not WITH_INVENTORY:
        return
    for key in ("port", "http.port"):
        if key in own and int_or_none(own[key]) != process.port:
            _elsewhere(sheet, process, key, own[key])
    hosts = [own["http.host"]] if "http.host" in own else []
    if "listeners" in own:
        try:
            urls = [urlsplit(one.strip()) for one in own["listeners"].split(",")]
            ports = [url.port for url in urls]
        except ValueError:
            urls, ports = [], []
        here = [url for url, port in zip(urls, ports, strict=True) if port == process.port]
        if not here or (len(ports) > 1 and process.instances > 1):
            _elsewhere(sheet, process, "listeners", own["listeners"])
        elif (scheme := here[0].scheme) in ("http", "https") and scheme != process.scheme:
            sheet.error(
                "rest.listeners",
                f"listeners is {own['listeners']}, and kafka_rest_tls is "
                f"{'set' if process.variables.tls else 'not set'}: balancers, probes and clients would speak "
                f"{process.scheme} to the instance",
                "take listeners out, and " + ("set" if scheme == "https" else "take out") + " kafka_rest_tls",
                "listeners",
            )
        hosts += [url.hostname or "" for url in here]
    for host in hosts:
        if _LOOPBACK.fullmatch(host) and not _LOOPBACK.fullmatch(process.address):
            key = "http.host" if "http.host" in own else "listeners"
            sheet.error(
                "rest.listeners",
                f"{key} is {own[key]}, which no other host reaches",
                f"take {key} out, or name 0.0.0.0",
                key,
            )


def _elsewhere(sheet: Sheet, process: RestProcess, key: str, value: str) -> None:
    many = f" for each of the {process.instances} instances of the host" if process.instances > 1 else ""
    sheet.error(
        "rest.listeners",
        f"{key} is {value}{many}, and balancers, probes and clients look for this instance at port "
        f"{process.port}",
        f"take {key} out, and set kafka_rest_first_port",
        key,
    )
