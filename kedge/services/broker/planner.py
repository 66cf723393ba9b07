"""Rules for the brokers of a cluster that Kedge runs itself: local fleets and small clusters."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence

from kedge.keys.accepted_values import check_values
from kedge.keys.catalogue import takes
from kedge.keys.unread import check_keys
from kedge.plan import jvm_flags
from kedge.plan.compact_names import compact, natural
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory, in_url
from kedge.plan.inventory.clusters import KafkaCluster, clusters
from kedge.plan.plan import Part, PlannedInstance
from kedge.plan.service import put_stop
from kedge.plan.settings import Advice, Basis, Choice, Sheet
from kedge.plan.values import int_or_zero
from kedge.plan.variable_messages import wrong_variable
from kedge.plan.variables import basis_of, role_variables
from kedge.services.broker.security import plan_authorizer, plan_broker_security, plan_format
from kedge.services.broker.variables import KafkaBroker
from kedge.services.clients.group_protocol import (
    HEARTBEAT_MS,
    SESSION_MS,
    session_basis,
    session_ms,
    stall_s,
    takes_consumer_protocol,
)

SERVICE = "kafka_broker"
_KRAFT = "Kafka documentation, KRaft"
_RACKS = "Kafka documentation, Balancing replicas across racks"
_OPERATIONS = "Kafka documentation, Hardware and OS"
_GROUPS = "Kafka documentation, Consumer Rebalance Protocol"
_CONTROLLER_PORT = 9093
#: As in the measurement.
_HEARTBEAT_MS = 1000
#: Numbers at the end of a host's name up to here are its id; other names get one above.
_MOST_NAMED = 99_999
#: Metaspace, code, threads and network buffers of a broker: an estimate, measured by nobody here.
_OUTSIDE_MIB = 384


def plan_brokers(inventory: Inventory, used: frozenset[str], advice: Advice) -> Part:
    """Plan one broker process on each host of the clusters that something uses (``used``).

    A cluster that nothing refers to is left out with a warning: its hosts are not touched.
    """
    known, _ = clusters(inventory)
    services: dict[str, dict[str, tuple[PlannedInstance, ...]]] = {}
    findings: list[Finding] = []
    for name, cluster in known.items():
        if cluster.brokers is None:
            continue
        if name not in used:
            findings += _unused(name, inventory.group(cluster.brokers))
            continue
        read: dict[str, KafkaBroker] = {}
        taken = takes("broker", cluster.version)
        for host in inventory.group(cluster.brokers):
            variables = role_variables(KafkaBroker, SERVICE, host, inventory.hosts[host])
            if isinstance(variables, list):
                findings += variables
            elif wrong := check_values(f"{SERVICE}_settings", host, variables.settings, taken):
                findings += wrong
            elif variables.port == _CONTROLLER_PORT and variables.controller:
                findings.append(
                    wrong_variable(
                        f"{SERVICE}_port",
                        host,
                        f"is {_CONTROLLER_PORT}, on which the controller of the same process listens",
                        "use another port, such as 9092",
                    )
                )
            else:
                read[host] = variables
        ids = {host: _node_id(host, variables) for host, variables in read.items()}
        controllers = [host for host, variables in read.items() if variables.controller]
        findings += [*_clashes(name, ids), *_no_controller(name, read, controllers)]
        for host, variables in read.items():
            sheet = Sheet(f"{host} {SERVICE}@{name}", advice, variables.settings, f"{SERVICE}_settings")
            names = [one.certificate_name or other for other, one in sorted(read.items())]
            _settings(sheet, inventory, name, host, ids, controllers, variables, cluster, names)
            findings += sheet.findings
            findings += check_keys(
                "broker",
                cluster.version,
                variables.settings,
                sheet.where,
                "broker.keys",
                variable=sheet.variable,
            )
            of_host = services.setdefault(host, {})
            instance = PlannedInstance(name, sheet.by_file(), variables.port)
            of_host[SERVICE] = (*of_host.get(SERVICE, ()), instance)
    return Part(services=services, findings=tuple(findings))


def _rack(sheet: Sheet, inventory: Inventory, host: str, brokers: Iterable[str]) -> str | None:
    """Return the rack of a broker where every broker of its cluster has one: copies are spread only then."""
    racks = {broker: inventory.hosts[broker].get("rack") for broker in brokers}
    without = sorted(broker for broker, rack in racks.items() if rack is None)
    if racks[host] is not None and without:
        sheet.warning(
            "broker.rack",
            f"{host} has a rack, and {', '.join(without)} of its cluster has none: copies would not be "
            "spread over racks, so broker.rack is left out",
            "give every broker of the cluster a rack, or none",
        )
    return str(racks[host]) if not without else None


def _settings(
    sheet: Sheet,
    inventory: Inventory,
    cluster: str,
    host: str,
    ids: dict[str, int],
    controllers: Sequence[str],
    variables: KafkaBroker,
    declared: KafkaCluster,
    names: Sequence[str],
) -> None:
    security = declared.security
    folder = f"/etc/kafka-broker/{cluster}"
    properties = f"{folder}/server.properties"
    address = in_url(inventory.address(host))
    copies = min(3, len(ids))
    voters = ",".join(
        f"{node_id}@{in_url(inventory.address(h))}:{_CONTROLLER_PORT}"
        for node_id, h in sorted((ids[h], h) for h in controllers)
    )

    def put(key: str, rule: str, value: str | int, because: str, source: str = _KRAFT) -> None:
        sheet.put(properties, key, f"broker.{rule}", Choice(value, because, source, "derived"))

    roles, why = "broker,controller", "a small cluster needs no controllers of its own"
    if not variables.controller:
        roles, why = "broker", "kafka_broker_controller is false"
    put("process.roles", "roles", roles, why)
    put("node.id", "identity", ids[host], _why_id(host, variables))
    put(
        "controller.quorum.voters",
        "quorum",
        voters,
        f"the {len(controllers)} controllers of cluster {cluster}",
    )
    put("controller.listener.names", "listeners", "CONTROLLER", "the quorum has a listener of its own")
    if rack := _rack(sheet, inventory, host, ids):
        because = "rack of its host: the copies of a partition are spread over racks"
        put("broker.rack", "rack", rack, because, _RACKS)
    protocol = security.protocol if security else "PLAINTEXT"
    own, bound = (
        f"{protocol}://{address}:{variables.port}",
        in_url(variables.bind_address or inventory.address(host)),
    )
    listener = f"{protocol}://{bound}:{variables.port}"
    put(
        "listeners",
        "listeners",
        f"{listener},CONTROLLER://{bound}:{_CONTROLLER_PORT}" if variables.controller else listener,
        "bound to kafka_broker_bind_address"
        if variables.bind_address
        else "bound to the address that other machines use, and to no other",
    )
    put(
        "advertised.listeners",
        "listeners",
        own,
        "what clients connect to",
    )
    plan_broker_security(sheet, properties, folder, security, variables.tls)
    plan_authorizer(sheet, properties, security, names)
    plan_format(sheet, folder, cluster, security)
    put("log.dirs", "storage", f"/var/lib/kafka-broker/{cluster}/data", "one folder a broker")
    put(
        "auto.create.topics.enable",
        "topics",
        "false",
        "topics are declared; a misspelt name must not become one",
    )
    put("num.partitions", "topics", 1, "topics are declared with their own number")
    for key in ("offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
        put(key, "replication", copies, f"{copies} of {len(ids)} brokers")
    put(
        "transaction.state.log.min.isr",
        "replication",
        max(1, copies - 1),
        f"{copies} copies, of which one may be unavailable" if copies > 1 else "there is one copy",
    )
    if takes_consumer_protocol(declared.version):
        _groups(sheet, properties, stall_s(inventory))
    sheet.rest_of_own(properties, "broker.own")

    environment = f"{folder}/environment"
    heap = variables.heap_mib
    sheet.put(
        environment,
        "KAFKA_HEAP_OPTS",
        "broker.heap",
        Choice(
            jvm_flags.heap(heap),
            f"kafka_broker_heap_mib is {heap}; the page cache does the rest",
            f"{_OPERATIONS}; kafka-server-start.sh of Kafka 4.3",
            basis_of(KafkaBroker, "heap_mib", heap, "documented"),
        ),
    )
    sheet.put(
        environment,
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "broker.gc",
        Choice(
            jvm_flags.KAFKA_G1,
            "the flags that Kafka's own start script sets",
            "kafka-run-class.sh of Kafka 4.3",
            "documented",
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
            "derived",
        ),
    )
    jvm_flags.console_logging(sheet, f"{folder}/log4j2.properties", "broker")
    _unit(sheet, cluster, heap, variables)


def _groups(sheet: Sheet, file: str, stall: float | None) -> None:
    """Plan the time-outs of groups of the consumer protocol, which their clients cannot give themselves."""
    settings: tuple[tuple[str, str, int, int, str, Basis], ...] = (
        (
            "session.timeout.ms",
            "broker.group_session",
            session_ms(stall),
            SESSION_MS,
            f"two thirds of the {stall or 0:g} s for which service_levels.rebalance.consume_stall_s lets a "
            "group get nothing: a killed member holds its partitions for the whole session",
            session_basis(stall),
        ),
        (
            "heartbeat.interval.ms",
            "broker.group_heartbeat",
            _HEARTBEAT_MS,
            HEARTBEAT_MS,
            "the answer to a heartbeat says which partitions a member gives up, and the answer to another "
            "member's which it gets; the price is a request a second and member",
            "measured",
        ),
    )
    for key, rule, value, default, because, basis in settings:
        documented = Choice(default, "the default", _GROUPS, "documented")
        measured = Choice(value, because, "REST proxy measurements, Groups and restarts", basis)
        chosen = sheet.put(file, f"group.consumer.{key}", rule, documented, measured)
        if (least := int_or_zero(chosen)) < default:
            why = f"group.consumer.{key} may not lie below it, and it is {default} unless set"
            sheet.put(file, f"group.consumer.min.{key}", rule, Choice(least, why, _GROUPS, "derived"))


def _unit(sheet: Sheet, cluster: str, heap_mib: int, variables: KafkaBroker) -> None:
    """Plan the limits of the unit: memory is kept for the process, and its page cache is left unbounded."""
    file = f"/etc/systemd/system/kafka-broker@{cluster}.service.d/10-kedge.conf"
    flags = next(s.value for s in sheet.settings if s.key == "KAFKA_HEAP_OPTS")
    mib = jvm_flags.maximum_heap_mib(flags) or heap_mib
    put_stop(
        sheet,
        file,
        "kafka_broker",
        variables.stop_seconds,
        "a controlled stop moves the leaders to other brokers one at a time, in a few ms each, and a "
        "killed broker "
        "reads its logs when it starts; as long as Confluent's units wait",
        "Configure Kafka for High Throughput, Increasing the number of partitions may decrease "
        "availability; Confluent's package units",
        basis_of(KafkaBroker, "stop_seconds", variables.stop_seconds, "documented"),
    )
    sheet.put(
        file,
        "MemoryLow",
        "broker.memory",
        Choice(
            f"{mib + _OUTSIDE_MIB}M",
            f"{mib} MiB heap and an estimated {_OUTSIDE_MIB} MiB outside it are not taken back for other "
            "services; no MemoryMax, which would count the page cache that a broker lives on",
            "systemd.resource-control; Kafka documentation, Hardware and OS",
            "estimate",
        ),
    )
    sheet.put(
        file,
        "LimitNOFILE",
        "broker.files",
        Choice(
            variables.open_files,
            "Kafka asks for at least 100000: two for each log segment and one a connection",
            _OPERATIONS,
            basis_of(KafkaBroker, "open_files", variables.open_files, "documented"),
        ),
    )


def _node_id(host: str, variables: KafkaBroker) -> int:
    """Return an id that depends on nothing but the host itself, so that others may come and go."""
    if variables.id is not None:
        return variables.id
    number = re.search(r"(\d+)$", host.partition(".")[0])
    if number and int(number[1]) <= _MOST_NAMED:
        return int(number[1])
    return _MOST_NAMED + 1 + zlib.crc32(host.encode()) % (2**31 - 1 - _MOST_NAMED - 1)


def _why_id(host: str, variables: KafkaBroker) -> str:
    if variables.id is not None:
        return "kafka_broker_id"
    return f"from the name {host} alone, so that it stays whatever hosts come and go"


def _unused(cluster: str, hosts: Sequence[str]) -> list[Finding]:
    if not hosts:
        return []
    return [
        Finding(
            "warning",
            "broker.cluster",
            f"all: kafka_clusters.{cluster}",
            f"no topic, proxy, mirror or application uses cluster {cluster}, so its brokers are left out of "
            f"the plan: {compact(sorted(hosts, key=natural))}",
            f"declare a topic of it in kafka_topics, or remove {cluster} from kafka_clusters",
        )
    ]


def _no_controller(cluster: str, brokers: Iterable[str], controllers: Sequence[str]) -> list[Finding]:
    if controllers or not (hosts := sorted(brokers)):
        return []
    return [
        Finding(
            "error",
            "broker.quorum",
            f"{hosts[-1]}: kafka_broker_controller",
            f"is false on all {len(hosts)} brokers of cluster {cluster}, which would have no controller",
            "remove kafka_broker_controller from the hosts that the cluster began with",
        )
    ]


def _clashes(cluster: str, ids: dict[str, int]) -> list[Finding]:
    hosts: dict[int, list[str]] = {}
    for host, node_id in ids.items():
        hosts.setdefault(node_id, []).append(host)
    return [
        Finding(
            "error",
            "broker.identity",
            f"{same[-1]}: kafka_broker_id",
            f"the brokers {' and '.join(same)} of cluster {cluster} would all have kafka_broker_id {node_id}",
            "set kafka_broker_id of each to a number of its own",
        )
        for node_id, same in hosts.items()
        if len(same) > 1
    ]
