"""The plan of Streams applications: their instances, what does not fit, and what was measured of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kedge.keys.catalogue import every_key, known_keys
from kedge.keys.unread import check_keys
from kedge.plan.findings import Finding, Reader, Subject
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import (
    MESSAGE_MAX_BYTES,
    KafkaCluster,
    bootstrap,
    broker_count,
    cluster_names,
    clusters,
    message_max_bytes,
)
from kedge.plan.inventory.security import Security
from kedge.plan.inventory.service_levels import service_levels
from kedge.plan.measured_capacity import Carriers, headroom, not_used, of_other_hosts
from kedge.plan.plan import Part, PlannedInstance
from kedge.plan.settings import Advice, Sheet
from kedge.plan.variable_messages import declare
from kedge.plan.version_numbers import NEWER_KAFKA, OF_KAFKA, numbers
from kedge.services.clients.client_checks import check_acks
from kedge.services.clients.fetches import Fetches, fetches_of
from kedge.services.host.java import release_of
from kedge.services.host.memory import SYSTEM_MIB
from kedge.services.host.variables import HostFacts, host_facts
from kedge.services.streams import stores as streams_stores
from kedge.services.streams.changelogs import check_files, check_own_settings, kept_of
from kedge.services.streams.memory import plan_memory
from kedge.services.streams.properties import CONSUMER_PREFIXES, App, check_records, plan_properties
from kedge.services.streams.protocol import check_protocol
from kedge.services.streams.rocksdb import check_memtables
from kedge.services.streams.variables import BESIDE, ROLE, StreamsApp, read_by, streams_apps


def refused(spec: StreamsApp, facts: HostFacts) -> str | None:
    """Return why the measured capacity says nothing of a host; None where it does, or there is none."""
    measured = spec.measured_capacity
    if measured is None:
        return None
    was, planned = f"{measured.name} with {measured.version}", f"{spec.name} with {spec.version}"
    if why := of_other_hosts(measured, was, planned, facts.cores):
        return why
    if measured.instances_per_host != spec.instances_per_host:
        here = f"{spec.instances_per_host} are planned"
        return f"it is of {measured.instances_per_host} instances a host, and {here}"
    if measured.record_bytes != spec.record_bytes:
        return f"it is of {measured.record_bytes} bytes a record, not {spec.record_bytes}"
    return None


def application_headroom(
    name: str, hosts: Sequence[str], variables: Mapping[str, StreamsApp], facts: Mapping[str, HostFacts]
) -> Iterator[Finding]:
    """Say what an application's rate leaves of what was measured, or why that is not used."""
    spec = variables[hosts[0]]
    measured, where = spec.measured_capacity, f"application {name}"
    if measured is None:
        return
    if why := next(filter(None, (refused(variables[host], facts[host]) for host in hosts)), None):
        yield not_used(where, f"{ROLE}_measured_capacity", measured, why, rule="streams.capacity")
    elif spec.records_per_s:
        what = f"{measured.name} with {measured.version}, records of {measured.record_bytes} bytes"
        fix = f"add hosts, or lower {ROLE}_records_per_s to what they have to sustain"
        instances = [measured.instances_per_host] * len(hosts)
        carriers = Carriers(instances, instances)
        yield from headroom(where, measured, what, carriers, spec.records_per_s, fix, rule="streams.capacity")


SERVICE: Final = ROLE
_SETTINGS: Final = f"{SERVICE}_settings"


def plan_streams(inventory: Inventory, advice: Advice) -> Part:
    """Plan the instances of the group ``streams_app``."""
    variables, findings = streams_apps(inventory)
    known, _ = clusters(inventory)
    services: dict[str, dict[str, tuple[PlannedInstance, ...]]] = {}
    by_app: dict[str, list[str]] = {}
    for host, spec in variables.items():
        by_app.setdefault(spec.name, []).append(host)
    broken = {f.subject.host for f in findings if f.severity == "error" and f.subject}
    for name, hosts in sorted(by_app.items()):
        usable = [h for h in hosts if h not in broken]
        if usable:
            findings += _app_findings(name, usable, variables, known, inventory)
            if (cluster := known.get(variables[usable[0]].cluster)) is not None:
                brokers = message_max_bytes(inventory, cluster)
                findings += check_records(variables[usable[0]], brokers, inventory.reader)
            findings += _acks_findings(name, variables[usable[0]], inventory)
        known_facts: dict[str, HostFacts] = {}
        for host in usable:
            facts = host_facts(host, inventory.hosts[host])
            spec = variables[host]
            if isinstance(facts, list):
                findings += facts
                continue
            known_facts[host] = facts
            if spec.cluster in known:
                servers = bootstrap(inventory, spec.cluster, known[spec.cluster])
                away = (
                    sum(variables[h].instances_per_host for h in hosts if h != host)
                    or spec.instances_per_host
                )
                java = release_of(inventory.hosts[host])
                fetched = fetches_of(inventory, known[spec.cluster], spec.settings, *CONSUMER_PREFIXES)
                takes = message_max_bytes(inventory, known[spec.cluster]) or MESSAGE_MAX_BYTES
                security = known[spec.cluster].security
                found = _host(
                    host,
                    spec,
                    facts,
                    len(hosts),
                    away,
                    servers,
                    fetched,
                    java,
                    takes,
                    security,
                    advice,
                    inventory.reader,
                )
                findings += found.findings
                services[host] = {SERVICE: found.services[host][SERVICE]}
            findings += _check_link(
                f"{host} {SERVICE}", spec, facts, sum(variables[h].instances_per_host for h in hosts)
            )
        if usable and len(known_facts) == len(usable):
            findings += application_headroom(name, usable, variables, known_facts)
    return Part(services=services, findings=tuple(findings))


def _host(
    host: str,
    spec: StreamsApp,
    facts: HostFacts,
    hosts: int,
    carriers: int,
    servers: str,
    fetched: Fetches,
    java: int | None,
    takes: int,
    security: Security | None,
    advice: Advice,
    reader: Reader,
) -> Part:
    instances = []
    findings: list[Finding] = []
    total = 0
    for index in range(spec.instances_per_host):
        app = App(
            spec, host, facts, index, hosts, carriers, servers, advice, fetched, java, takes, security, reader
        )
        properties = app.sheet(dict(spec.settings), _SETTINGS)
        standbys, buffers = plan_properties(properties, app)
        state = app.state(standbys)
        own = dict(spec.environment) | (dict(spec.rocksdb.items()) if spec.stores else {})
        memory = app.sheet(own, f"{SERVICE}_environment")
        total += plan_memory(memory, app, state, buffers)
        check_memtables(memory, state)
        findings += properties.findings + memory.findings
        instances.append(PlannedInstance(app.name, tuple(properties.settings + memory.settings)))
    # Beyond the whole memory it is host.memory, which counts what else runs on the host.
    if total <= facts.memory_mib < total + SYSTEM_MIB:
        findings.append(
            Finding(
                "error",
                "streams.memory.room",
                f"{host} {SERVICE}",
                f"its instances take {total} MiB of heap, RocksDB and overhead, and host_memory_mib is "
                f"{facts.memory_mib}, of which the system takes {SYSTEM_MIB}",
                "use more or larger hosts, fewer instances, or a smaller streams_app_rocksdb_mib",
                Subject("host_memory_mib", host=host),
            )
        )
    return Part(services={host: {SERVICE: tuple(instances)}}, findings=tuple(findings))


def _check_link(where: str, spec: StreamsApp, facts: HostFacts, instances: int) -> list[Finding]:
    """Find input that the host's link does not carry; what an application writes goes the other way."""
    if not spec.records_per_s or facts.link_mbit_per_s is None:
        return []
    taken = spec.records_per_s * spec.record_bytes * spec.instances_per_host / instances
    link = facts.link_mbit_per_s * 1_000_000 / 8
    if taken <= link:
        return []
    return [
        Finding(
            "error",
            "streams.link",
            where,
            f"{spec.records_per_s:g} records/s of {spec.record_bytes} bytes over {instances} instances are "
            f"{taken / 1e6:.1f} MB/s into the host, and host_link_mbit_per_s is {facts.link_mbit_per_s}, "
            f"{link / 1e6:g} MB/s",
            f"use {math.ceil(taken / link)} times as many hosts, or a link of "
            f"{math.ceil(taken * 8 / 1e6)} Mbit/s",
        )
    ]


def _app_findings(
    name: str,
    hosts: list[str],
    variables: Mapping[str, StreamsApp],
    known: Mapping[str, KafkaCluster],
    inventory: Inventory,
) -> list[Finding]:
    spec, names = variables[hosts[0]], cluster_names(inventory)
    sheet = Sheet(f"application {name}", "measured", {}, _SETTINGS, inventory.reader)
    for host in hosts[1:]:
        other = variables[host]
        if (other.cluster, other.stores, other.version) != (spec.cluster, spec.stores, spec.version):
            sheet.error(
                "streams.application",
                f"streams_app_cluster, streams_app_stores or streams_app_version of {name} differ between "
                f"{hosts[0]} and {host}",
                "define an application once, in group_vars",
            )
    if spec.cluster not in names:
        sheet.error(
            "streams.cluster",
            f"streams_app_cluster is {spec.cluster}, which is not declared",
            declare(names),
            variable="streams_app_cluster",
        )
    _check_version(sheet, spec)
    check_protocol(sheet, spec, known.get(spec.cluster))
    _check_unbounded(sheet, spec)
    instances = sum(variables[h].instances_per_host for h in hosts)
    widest = max((s.partitions for s in spec.stores), default=0)
    if widest and instances > widest:
        sheet.warning(
            "streams.instances",
            f"{name} has {instances} instances, and its widest store {widest} partitions: the others would "
            "idle",
            "use fewer hosts or instances, or more partitions",
        )
    unproven = [jar.path for jar in spec.jars if jar.sha256 is None]
    if unproven:
        sheet.note(
            "streams.jars",
            f"{', '.join(unproven)}: without a checksum, what lies there is deployed",
            "give its sha256 in streams_app_jars, unless this machine built it",
            variable="streams_app_jars",
        )
    takes = streams_stores.restore_seconds(spec, instances, kept_of(spec))
    if takes > spec.ready_seconds:
        sheet.warning(
            "streams.ready",
            f"with all hosts there, one of {instances} instances restores its stores in about {takes:.0f} s, "
            f"and streams_app_ready_seconds is {spec.ready_seconds}: one without its disk would be given up",
            f"set it to {math.ceil(2 * takes)}",
            variable="streams_app_ready_seconds",
        )
    check_own_settings(sheet, spec)
    if spec.cluster in known:
        check_files(sheet, spec, broker_count(inventory, known[spec.cluster]))
    return sheet.findings + _key_findings(spec)


def _acks_findings(name: str, spec: StreamsApp, inventory: Inventory) -> list[Finding]:
    """Find acks with which results and changelogs are lost; a key with its prefix goes before one without."""
    sheet = Sheet(f"application {name}", "measured", {}, _SETTINGS, inventory.reader)
    key = next((k for k in ("producer.acks", "acks") if k in spec.settings), None)
    if key:
        fix, levels = f"take {key}{sheet.out}: Kafka Streams sets all", service_levels(inventory)
        check_acks(sheet, "the application", str(spec.settings[key]), levels, fix, "streams.acks", key=key)
    return sheet.findings


def _check_version(sheet: Sheet, spec: StreamsApp) -> None:
    version = numbers(spec.version)
    if version >= NEWER_KAFKA:
        sheet.error(
            "streams.version",
            f"{sheet.name('streams_app_version')} is {spec.version}, which is no version of Apache Kafka",
            OF_KAFKA,
            variable="streams_app_version",
        )
    if version in {(4, 1), (4, 1, 0)}:
        sheet.warning(
            "streams.version",
            f"{sheet.name('streams_app_version')} is {spec.version}, which leaks memory (KAFKA-19748)",
            "use 4.1.1 or later",
            variable="streams_app_version",
        )


def _check_unbounded(sheet: Sheet, spec: StreamsApp) -> None:
    """Say what stock RocksDB would take over all instances, as the article counts it and as it is."""
    if not spec.stores:
        return
    article = streams_stores.state(spec.stores, 1, 0, measured=False)
    counted = streams_stores.state(spec.stores, 1, 0, measured=True)
    joins = sum(s.count for s in spec.stores if s.kind == "join")
    more = (
        f"; {joins} joins keep two stores each, so it is {counted.stores} stores, {counted.databases} "
        f"databases and {counted.unbounded_mib:.0f} MB"
        if joins
        else ""
    )
    sheet.note(
        "streams.memory.unbounded",
        f"without a bound the RocksDB of {article.stores} stores would take {article.unbounded_mib:.0f} MB "
        f"over all instances (partitions x segments x 98 MB){more}",
        "",
    )


def _key_findings(spec: StreamsApp) -> list[Finding]:
    """Return a warning for each key of a person's own that this version does not read."""
    findings: list[Finding] = []
    plain = []

    def bare(key: str) -> str:
        return read_by(key)[1]

    for key in spec.settings:
        component, _ = read_by(key)
        if component is None:
            plain.append(key)
        else:
            findings += check_keys(component, spec.version, [key], _SETTINGS, bare=bare)
    clients = frozenset[str]().union(*(known_keys(c, spec.version) for c in BESIDE))
    # Serdes of a registry get all keys.
    own = [k for k in plain if k not in clients and k not in every_key("serializer")]
    return findings + check_keys("streams", spec.version, own, _SETTINGS)
