"""Rules for the brokers of a cluster that the kit runs itself: local fleets and small clusters."""

from __future__ import annotations

import base64
import hashlib

from sizing import jvm
from sizing.model import Advice, Choice, Finding, Instance, Inventory, Part, Sheet
from sizing.workload import KafkaBroker, clusters, role_variables

SERVICE = "kafka_broker"
_KRAFT = "Kafka documentation, KRaft"
_OPERATIONS = "Kafka documentation, Hardware and OS"
_CONTROLLER_PORT = 9093


def plan_brokers(inventory: Inventory, used: frozenset[str], advice: Advice) -> Part:
    """Plan one broker process on each host of the clusters that something uses (``used``).

    A cluster that nothing refers to is left out: its hosts are not touched.
    """
    known, _ = clusters(inventory)
    services: dict[str, dict[str, tuple[Instance, ...]]] = {}
    findings: list[Finding] = []
    for name, cluster in known.items():
        if cluster.brokers is None or name not in used:
            continue
        hosts = inventory.group(cluster.brokers)
        for host in hosts:
            variables = role_variables(KafkaBroker, SERVICE, host, inventory.hosts[host])
            if isinstance(variables, list):
                findings += variables
                continue
            sheet = Sheet(host, advice, variables.settings)
            _settings(sheet, inventory, name, host, hosts, variables)
            findings += sheet.findings
            services[host] = {SERVICE: (Instance(name, tuple(sheet.settings), variables.port),)}
    return Part(services=services, findings=tuple(findings))


def _settings(
    sheet: Sheet,
    inventory: Inventory,
    cluster: str,
    host: str,
    hosts: tuple[str, ...],
    variables: KafkaBroker,
) -> None:
    folder = f"/etc/kafka-broker/{cluster}"
    properties = f"{folder}/server.properties"
    node_id = hosts.index(host) + 1
    address = inventory.address(host)
    copies = min(3, len(hosts))
    voters = ",".join(f"{n}@{inventory.address(h)}:{_CONTROLLER_PORT}" for n, h in enumerate(hosts, start=1))

    def put(key: str, rule: str, value: str | int, because: str, source: str = _KRAFT) -> None:
        sheet.put(properties, key, f"broker.{rule}", Choice(value, because, source))

    put("process.roles", "roles", "broker,controller", "a small cluster needs no controllers of its own")
    put("node.id", "identity", node_id, f"place of {host} in its group")
    put("controller.quorum.voters", "quorum", voters, f"the {len(hosts)} hosts of cluster {cluster}")
    put("controller.listener.names", "listeners", "CONTROLLER", "the quorum has a listener of its own")
    put(
        "listeners",
        "listeners",
        f"PLAINTEXT://{address}:{variables.port},CONTROLLER://{address}:{_CONTROLLER_PORT}",
        "bound to the address that other machines use, and to no other",
    )
    put(
        "advertised.listeners",
        "listeners",
        f"PLAINTEXT://{address}:{variables.port}",
        "what clients connect to",
    )
    put("log.dirs", "storage", f"/var/lib/kafka-broker/{cluster}/data", "one folder a broker")
    put(
        "auto.create.topics.enable",
        "topics",
        "false",
        "topics are declared; a misspelt name must not become one",
    )
    put("num.partitions", "topics", 1, "topics are declared with their own number")
    for key in ("offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
        put(key, "replication", copies, f"{copies} of {len(hosts)} brokers")
    put(
        "transaction.state.log.min.isr",
        "replication",
        max(1, copies - 1),
        f"{copies} copies, one may be away",
    )
    sheet.rest_of_own(properties, "broker.own")

    environment = f"{folder}/environment"
    heap = variables.heap_mib
    sheet.put(
        environment,
        "KAFKA_HEAP_OPTS",
        "broker.heap",
        Choice(jvm.heap(heap), f"kafka_broker_heap_mib is {heap}; the page cache does the rest", _OPERATIONS),
    )
    sheet.put(
        environment,
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "broker.gc",
        Choice(
            jvm.KAFKA_G1, "the flags that Kafka's own start script sets", "kafka-run-class.sh of Kafka 4.3"
        ),
    )
    sheet.put(
        environment,
        "KAFKA_OPTS",
        "broker.logging",
        Choice(
            f"-Dlog4j2.configurationFile={folder}/log4j2.properties",
            "logs go to the journal",
            "log4j 2 manual",
        ),
    )
    jvm.console_logging(sheet, f"{folder}/log4j2.properties", "broker")


def cluster_id(name: str) -> str:
    """Return the id of a cluster that the kit formats: a digest of its name, as Kafka writes a UUID."""
    return base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()[:16]).decode().rstrip("=")
