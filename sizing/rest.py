"""Rules for REST proxies: instances, identity, heap, collector, consumers."""

from __future__ import annotations

import math
from typing import Final

from sizing import jvm
from sizing.model import Advice, Choice, Finding, Instance, Inventory, Part, Sheet
from sizing.workload import HostFacts, KafkaRest, bootstrap, clusters, host_facts, role_variables

SERVICE = "kafka_rest"
_GUIDE: Final = "Confluent REST Proxy production guide"
_MEASURED: Final = "REST proxy measurements"

#: The guide's section JVM, without the heap.
GUIDE_G1: Final = (
    "-XX:MetaspaceSize=96m -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:G1HeapRegionSize=16M -XX:MinMetaspaceFreeRatio=50 -XX:MaxMetaspaceFreeRatio=80"
)
_REGIONS: Final = 2048  # G1 aims at about this many regions; OpenJDK, G1 ergonomics
_GUIDE_REGION_MIB: Final = 16


def plan_rest(inventory: Inventory, advice: Advice) -> Part:
    """Plan the REST instances of the group ``kafka_rest``."""
    known, _ = clusters(inventory)
    services: dict[str, dict[str, tuple[Instance, ...]]] = {}
    findings: list[Finding] = []
    for host in inventory.group(SERVICE):
        variables = role_variables(KafkaRest, SERVICE, host, inventory.hosts[host])
        facts = host_facts(host, inventory.hosts[host])
        wrong = [f for part in (variables, facts) if isinstance(part, list) for f in part]
        if isinstance(variables, list) or isinstance(facts, list):
            findings += wrong
            continue
        if variables.cluster not in known:
            findings.append(_unknown_cluster(host, variables.cluster, sorted(known)))
            continue
        servers = bootstrap(inventory, variables.cluster, known[variables.cluster])
        instances = []
        for number in range(variables.instances_per_host or max(2, facts.cores // 8)):
            port = variables.first_port + number
            sheet = Sheet(f"{host} {SERVICE}@{port}", advice, variables.settings)
            _settings(sheet, inventory.address(host), host, port, servers, variables, facts)
            findings += sheet.findings
            instances.append(Instance(str(port), tuple(sheet.settings), port))
        services[host] = {SERVICE: tuple(instances)}
    return Part(services=services, findings=tuple(findings))


def _settings(
    sheet: Sheet, address: str, host: str, port: int, servers: str, variables: KafkaRest, facts: HostFacts
) -> None:
    folder = f"/etc/kafka-rest/{port}"
    properties = f"{folder}/kafka-rest.properties"
    workload = variables.workload

    def put(
        key: str, rule: str, value: str | int, because: str, source: str, measured: Choice | None = None
    ) -> None:
        sheet.put(properties, key, f"rest.{rule}", Choice(value, because, source), measured)

    put(
        "id", "identity", f"{host}-{port}", "unique and stable: the host's name and the port", f"{_GUIDE}, id"
    )
    put(
        "listeners",
        "listeners",
        f"http://0.0.0.0:{port}",
        "one port an instance, from 8082 up",
        f"{_GUIDE}, Deployment",
    )
    put(
        "host.name",
        "identity",
        address,
        "consumers follow absolute URLs, so each instance must be addressable by itself",
        f"{_GUIDE}, host.name",
    )
    put(
        "bootstrap.servers",
        "cluster",
        servers,
        f"the brokers of cluster {variables.cluster}",
        f"{_GUIDE}, bootstrap.servers",
    )
    put(
        "consumer.threads",
        "consumer.threads",
        max(50, workload.largest_group + 1),
        f"above the largest group ({workload.largest_group} members)",
        f"{_GUIDE}, consumer.threads",
    )
    put(
        "consumer.request.timeout.ms",
        "consumer.latency",
        workload.delivery_latency_ms,
        f"records are wanted within {workload.delivery_latency_ms} ms",
        f"{_GUIDE}, consumer.request.timeout.ms",
    )
    sheet.put(
        properties,
        "consumer.receive.buffer.bytes",
        "rest.consumer.buffer",
        None,
        Choice(
            -1,
            "the kernel's own buffer sizing; 19 times the read throughput of the default",
            f"{_MEASURED}, Reading",
        ),
    )
    sheet.rest_of_own(properties, "rest.own")

    environment = f"{folder}/environment"
    documented, measured = _heap(variables, facts)
    mib = measured[0] if sheet.advice == "measured" else documented[0]
    sheet.put(
        environment,
        "KAFKAREST_HEAP_OPTS",
        "rest.heap.consumers",
        Choice(jvm.heap(documented[0]), documented[1], f"{_GUIDE}, JVM"),
        Choice(jvm.heap(measured[0]), measured[1], f"{_MEASURED}, Memory per consumer instance"),
    )
    logs = f"/var/log/kafka-rest/{port}"
    sheet.put(
        environment,
        "KAFKAREST_JVM_PERFORMANCE_OPTS",
        "rest.gc",
        Choice(f"{GUIDE_G1} {jvm.gc_log(logs)}", "the G1 flags of the guide", f"{_GUIDE}, JVM"),
        _gc(mib, logs),
    )
    sheet.put(
        environment,
        "LOG_DIR",
        "rest.logs",
        Choice(logs, "one log folder an instance", "kafka-rest-run-class"),
    )
    sheet.put(
        environment,
        "KAFKAREST_JMX_OPTS",
        "rest.jmx",
        Choice(
            "-Dkedge.jmx=off",
            "any value that does not open a port: the default opens a random one",
            "kafka-rest-run-class",
        ),
    )


def _heap(variables: KafkaRest, facts: HostFacts) -> tuple[tuple[int, str], tuple[int, str]]:
    """Return the heap in MiB and its reason: the documented one and the measured one."""
    workload = variables.workload
    documented = 1024 + 16 * workload.consumers
    # Live heap: 0.3 MiB an idle instance, and twice what a read may hold in flight, on top of 23 MiB.
    reading = min(workload.partitions, 50) * 2
    live = 23 + 32 + workload.consumers * (0.3 + reading)
    # G1 starts its concurrent cycle at 35 percent: live data should stay below half of the heap.
    measured = max(1024, math.ceil(live * 2 / 256) * 256)
    return (
        (documented, f"1 GiB and 16 MiB for each of {workload.consumers} consumers"),
        (
            measured,
            f"23 MiB, 32 MiB producer buffer and {workload.consumers} readers x (0.3 + 2 x "
            f"{min(workload.partitions, 50)} MiB) are {live:.0f} MiB live, twice that, 1 GiB at least",
        ),
    )


def _gc(heap_mib: int, logs: str) -> Choice:
    if heap_mib >= _REGIONS * _GUIDE_REGION_MIB:
        return Choice(f"{GUIDE_G1} {jvm.gc_log(logs)}", "the G1 flags of the guide", f"{_GUIDE}, JVM")
    flags = GUIDE_G1.replace(f"-XX:G1HeapRegionSize={_GUIDE_REGION_MIB}M ", "")
    return Choice(
        f"{flags} {jvm.gc_log(logs)}",
        f"16 MiB regions would leave {heap_mib // _GUIDE_REGION_MIB} of about {_REGIONS}; without them "
        "14 to 18 percent more throughput",
        f"{_MEASURED}, Garbage collectors",
    )


def _unknown_cluster(host: str, name: str, known: list[str]) -> Finding:
    return Finding(
        "error",
        "rest.cluster",
        f"{host}: kafka_rest_cluster",
        f"kafka_rest_cluster is {name}, which is not declared",
        f"use one of {', '.join(known) or '(none)'}, or declare it in kafka_clusters",
    )
