"""Client profiles: settings for somebody's producers and consumers, held against the service levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kedge.evidence.nearest import nearest
from kedge.keys.accepted_values import check_values
from kedge.keys.catalogue import Component, beyond, keys_around, takes
from kedge.keys.unread import check_keys
from kedge.plan.findings import WITH_INVENTORY, Finding, Reader
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import MESSAGE_MAX_BYTES, cluster_names, clusters, message_max_bytes
from kedge.plan.inventory.service_levels import service_levels
from kedge.plan.plan import Part
from kedge.plan.settings import KIB, MIB, Setting, Sheet
from kedge.plan.values import int_or_zero
from kedge.plan.variable_messages import declare
from kedge.plan.variables import Scalar
from kedge.plan.version_numbers import numbers
from kedge.services.clients.client_checks import (
    allowed,
    check_acks,
    check_batch,
    check_consumer,
    check_producer,
    unwanted,
)
from kedge.services.clients.group_protocol import Coordinator, coordinator, put_group
from kedge.services.clients.profile_settings import choice, within
from kedge.services.clients.profiles import (
    GUIDE,
    JAVA_DEFAULTS,
    PROFILES,
    ProfileRow,
    Role,
    client_version,
    default_value,
    key_name,
)
from kedge.services.clients.variables import ClientProfile, clients
from kedge.services.topics.cluster_limits import planned_partitions
from kedge.services.topics.variables import may_declare

_BUFFER_MIN: Final = int(JAVA_DEFAULTS["buffer.memory"])
#: "At least a few tens of KB per partition being produced".
_BYTES_A_PARTITION: Final = 32 * KIB
_IDEMPOTENCE_SINCE: Final = (0, 11)
_LIBRDKAFKA_KEYS: Final[dict[Role, Component]] = {
    "producer": "librdkafka-producer",
    "consumer": "librdkafka-consumer",
}
#: What bindings in other languages read themselves.
_BINDINGS: Final = ("dotnet.", "go.")
_OBSOLETE_PARTITIONERS: Final = ("DefaultPartitioner", "UniformStickyPartitioner")


def plan_clients(inventory: Inventory, topics: Part) -> Part:
    """Plan the clients of ``kafka_clients``; ``topics`` are the planned ones.

    Files are relative: ``clients/NAME/producer.properties``; of Spark, ``clients/NAME/*.options``.
    """
    known, _ = clusters(inventory)
    names = cluster_names(inventory)
    declared, findings = clients(inventory)
    levels = service_levels(inventory)
    planned: dict[str, tuple[Setting, ...]] = {}
    for client in declared:
        reader = inventory.reader
        variable = f"{_variable(client)}.producer_settings"
        sheet = Sheet(f"client {client.name}", "measured", {}, variable, reader)
        if client.cluster not in names:
            sheet.error(
                "clients.cluster",
                f"cluster {client.cluster} of client {client.name} is not in kafka_clusters",
                declare(names),
            )
        of_cluster = topics.topics.get(client.cluster, {})
        for missing in (
            t
            for t in client.topics
            if client.cluster in names and not may_declare(inventory, client.cluster, t)
        ):
            sheet.error(
                "clients.topics",
                f"topic {missing} of client {client.name} is not in kafka_topics for cluster "
                f"{client.cluster}",
                "declare it, or take it out",
            )
        own_topics = {t: of_cluster[t] for t in client.topics if t in of_cluster}
        partitions = sum(planned_partitions(s) for s in own_topics.values())
        cluster = known.get(client.cluster)
        takes_bytes = (message_max_bytes(inventory, cluster) if cluster else None) or MESSAGE_MAX_BYTES
        least = _least(own_topics, takes_bytes)
        producer = _profile(
            client, "producer", client.producer_settings, partitions, least=least, reader=reader
        )
        brokers = coordinator(inventory, cluster) if cluster else None
        consumer = _profile(client, "consumer", client.consumer_settings, partitions, brokers, reader=reader)
        _check_levels(sheet, client, producer, consumer, levels)
        _check_version(sheet, client)
        _check_topics(sheet, client, producer, own_topics)
        _check_buffer(sheet, client, producer, partitions)
        if cluster and least:
            _check_requests(sheet, client, producer, *least)
        planned[client.name] = tuple(producer.settings + consumer.settings)
        findings += producer.findings + consumer.findings + sheet.findings + _key_findings(client)
    return Part(clients=planned, findings=tuple(findings))


def profile(client: ClientProfile, role: Role, partitions: int = 0) -> tuple[Setting, ...]:
    """Return the settings of a client's producer or consumer that writes to that many partitions."""
    own = client.producer_settings if role == "producer" else client.consumer_settings
    return tuple(_profile(client, role, own, partitions).settings)


def _profile(
    client: ClientProfile,
    role: Role,
    own: Mapping[str, Any],
    partitions: int,
    brokers: Coordinator | None = None,
    least: tuple[str, int] | None = None,
    reader: Reader = WITH_INVENTORY,
) -> Sheet:
    """Plan a producer or a consumer; ``least`` is its topic of the smallest messages, with their bytes."""
    file = f"clients/{client.name}/{role}.{'options' if client.library == 'spark' else 'properties'}"
    mine = {_own_name(client, k): v for k, v in own.items()}
    variable = f"{_variable(client)}.{role}_settings"
    sheet = Sheet(f"client {client.name}", "measured", mine, variable, reader)
    rows = list(PROFILES[client.profile][role])
    if role == "producer":
        rows.append(_buffer(client, own, rows, partitions, least))
    elif client.library == "spark" and client.profile == "throughput":
        rows.append(
            ProfileRow(
                "max.poll.records",
                "10000",
                "executors take 500 records a poll by default",
                "memory for 10,000 records a task",
                "Broker, client and JVM facts, Consumers",
                "estimate",
            )
        )
    for row in rows:
        key = key_name(client.library, row.key)
        if key is None or _too_old(client, row.key):
            continue
        chosen = choice(client.profile, row, client.library, client.version)
        if least and row.key == "batch.size":
            chosen = within(chosen, least[1], f"topic {least[0]}")
        sheet.put(file, key, f"clients.{client.profile}.{row.key}", chosen)
    if role == "consumer" and brokers is not None:
        put_group(sheet, file, client, brokers)
    sheet.rest_of_own(file, "clients.own")
    if least and (batch := key_name(client.library, "batch.size")):
        check_batch(sheet, sheet.where, batch, least[1], f"topic {least[0]}", "clients.batch")
    if client.library != "librdkafka":
        prefix = "kafka." if client.library == "spark" else ""
        check = check_producer if role == "producer" else check_consumer
        check(sheet, sheet.where, prefix, client_version(client.library, client.version))
    return sheet


def _least(written: Mapping[str, tuple[Setting, ...]], of_cluster: int) -> tuple[str, int] | None:
    """Return the topic that takes the smallest messages, and how large they may be."""
    takes = {
        topic: int_or_zero(next((s.value for s in settings if s.key == "max.message.bytes"), of_cluster))
        for topic, settings in written.items()
    }
    return min(takes.items(), key=lambda each: each[1], default=None)


def _buffer(
    client: ClientProfile,
    own: Mapping[str, Any],
    rows: list[ProfileRow],
    partitions: int,
    least: tuple[str, int] | None,
) -> ProfileRow:
    planned = int_or_zero(next((r.value for r in rows if r.key == "batch.size"), "16384"))
    batch = int_or_zero(own.get("batch.size", min(planned, least[1]) if least else planned))
    each = max(batch, _BYTES_A_PARTITION)
    value = max(_BUFFER_MIN, partitions * each)
    because = f"{each} bytes for each of {partitions} partitions written to, 32 MiB at least"
    return ProfileRow("buffer.memory", str(value), because, f"{value // MIB} MiB of memory at most",
               f"{GUIDE}, Memory Allocation", "documented")  # fmt: skip


def _own_name(client: ClientProfile, key: str) -> str:
    """Return a person's own key as the library names it; Java's names are understood everywhere."""
    if client.library == "spark" and key.startswith("kafka."):
        return key
    return key_name(client.library, key) or key


def _too_old(client: ClientProfile, key: str) -> bool:
    version = numbers(client_version(client.library, client.version))
    return client.library != "librdkafka" and key == "enable.idempotence" and version < _IDEMPOTENCE_SINCE


def _effective(client: ClientProfile, sheet: Sheet, key: str) -> str:
    name = key_name(client.library, key)
    planned = next((s.value for s in sheet.settings if s.key == name), None)
    return (planned or default_value(client.library, client.version, key) or "").replace("-1", "all")


def _check_levels(
    sheet: Sheet, client: ClientProfile, producer: Sheet, consumer: Sheet, levels: Mapping[str, Any]
) -> None:
    delivery = levels.get("delivery") or {}
    acks = _effective(client, producer, "acks")
    safe = "acks: all and enable.idempotence: true"
    mend = sheet.either(f"use profile balanced, or {safe} in producer_settings", f"write {safe}")
    it = sheet.either(f"client {client.name}", "it")
    what = sheet.either(f"{it} (profile {client.profile})", it)
    refused = check_acks(sheet, what, acks, levels, mend, key="acks")
    # Without acks=all there is no idempotence either, and one finding is enough.
    if not refused and _effective(client, producer, "enable.idempotence") != "true":
        for kind in ("duplicated", "reordered"):
            if delivery.get(kind, 0) == 0:
                sheet.error(
                    "clients.idempotence",
                    f"{it} has no idempotence{unwanted(sheet, kind)}: a retry can double and reorder records",
                    "set enable.idempotence: true"
                    + sheet.either(" in producer_settings", "")
                    + f", or {allowed(sheet, 'duplicated', 'reordered')}",
                    "enable.idempotence",
                )
                break
    latency = (levels.get("latency") or {}).get("kafka") or {}
    for key, of, level in (
        ("linger.ms", producer, "ack_p99_ms"),
        ("fetch.max.wait.ms", consumer, "delivery_p99_ms"),
    ):
        wanted = latency.get(level)
        waits = int_or_zero(_effective(client, of, key))
        if key == "fetch.max.wait.ms" and int_or_zero(_effective(client, of, "fetch.min.bytes")) <= 1:
            continue  # the first record ends the wait
        if isinstance(wanted, int | float) and waits >= wanted:
            name = key_name(client.library, key)
            own = any(s.key == name and s.by == "person" for s in of.settings)
            sheet.error(
                "clients.latency",
                f"{it} waits up to {key}={waits}, and service_levels.latency.kafka.{level} is {wanted:g}",
                f"set {key} below {wanted:g}"
                if own
                else f"use profile latency, or set {key} below {wanted:g}",
                key,
                variable=of.variable,
            )


def _check_version(sheet: Sheet, client: ClientProfile) -> None:
    it = sheet.either(f"client {client.name}", "it")
    partitioner = str(client.producer_settings.get("partitioner.class", ""))
    if partitioner.endswith(_OBSOLETE_PARTITIONERS):
        sheet.warning(
            "clients.partitioner",
            f"{it} sets partitioner.class to {partitioner}, which turns the adaptive partitioner off (since "
            "3.3)",
            "take partitioner.class out",
            "partitioner.class",
        )
    for role, own in _own_settings(client):
        if client.library == "librdkafka":
            _check_librdkafka(sheet, client, role, own)
            continue
        for key in own:
            if key_name(client.library, _bare(key)) is None:
                sheet.error(
                    "clients.refused",
                    sheet.either(f"{role}_settings of client {client.name} hold {key}", f"{key} is set")
                    + f", which {client.library} refuses",
                    f"take {key} out",
                    key,
                    variable=f"{_variable(client)}.{role}_settings",
                )
    if client.profile != "throughput" and _too_old(client, "enable.idempotence"):
        sheet.error(
            "clients.version",
            f"client {client.name} is {client.library} {client.version}, which has no idempotence",
            "use a client of 0.11 or later",
        )


def _check_librdkafka(sheet: Sheet, client: ClientProfile, role: Role, own: Mapping[str, Any]) -> None:
    """Report what librdkafka refuses to start with, and what it passes over in this role."""
    other: Role = "consumer" if role == "producer" else "producer"
    known = {each: keys_around(of, client.version) for each, of in _LIBRDKAFKA_KEYS.items()}
    if not known[role]:
        return
    what = f"{role}_settings of client {client.name} hold"
    for key in own:
        name = _own_name(client, key)
        if name in known[role] or name.startswith(_BINDINGS):
            continue
        if name in known[other]:
            sheet.warning(
                "clients.refused",
                f"{what} {key}, which librdkafka reads of a {other} alone",
                f"take it out, or put it into {other}_settings",
                key,
                variable=f"{_variable(client)}.{role}_settings",
            )
            continue
        near = nearest(name, known[role], 0.75)
        report = sheet.warning if beyond(_LIBRDKAFKA_KEYS[role], client.version) else sheet.error
        report(
            "clients.refused",
            f"{what} {key}, which librdkafka {client.version} refuses to start with",
            f"did you mean {near}?" if near else "take it out",
            key,
            variable=f"{_variable(client)}.{role}_settings",
        )


def _check_topics(
    sheet: Sheet, client: ClientProfile, producer: Sheet, written: Mapping[str, tuple[Setting, ...]]
) -> None:
    if client.profile != "durability" or _effective(client, producer, "acks") != "all":
        return
    for topic, settings in sorted(written.items()):
        values = {s.key: s.value for s in settings}
        copies, in_sync = (
            int_or_zero(values.get("replication.factor")),
            int_or_zero(values.get("min.insync.replicas")),
        )
        if copies > 1 and in_sync < 2:
            sheet.warning(
                "clients.min_insync",
                f"topic {topic} of client {client.name} has no min.insync.replicas of 2: acks=all is content "
                "with the leader alone when the other copies are unavailable",
                f"set min.insync.replicas: 2 in the settings of topic {topic}",
            )


def _check_buffer(sheet: Sheet, client: ClientProfile, producer: Sheet, partitions: int) -> None:
    """Hold a Java producer's buffer against a batch for each partition that it writes to."""
    if client.library == "librdkafka":  # its queue is one for all partitions
        return
    buffer = int_or_zero(_effective(client, producer, "buffer.memory"))
    needed = partitions * int_or_zero(_effective(client, producer, "batch.size"))
    if buffer < needed:
        sheet.warning(
            "clients.buffer",
            f"buffer.memory{sheet.of(sheet.where)} is {buffer}, and {partitions} partitions x batch.size "
            f"are {needed}: send() will block ({GUIDE}, Memory Allocation)",
            f"set buffer.memory to {max(needed, _BUFFER_MIN)}" + sheet.either(", or take it out", ""),
            "buffer.memory",
        )


def _check_requests(sheet: Sheet, client: ClientProfile, producer: Sheet, least: str, takes: int) -> None:
    """Hold a person's own largest request against what the topic takes that takes the least."""
    name = "message.max.bytes" if client.library == "librdkafka" else "max.request.size"
    own = int_or_zero(_effective(client, producer, name))
    # By default a producer refuses about what a topic refuses by default.
    if name not in client.producer_settings or own <= takes:
        return
    sheet.warning(
        "clients.request",
        f"{name}{sheet.of(sheet.where)} is {own}, and topic {least} takes messages of {takes} bytes: "
        "a larger batch is refused",
        f"set {name} to {takes}, or max.message.bytes of topic {least} to {own}",
        name,
    )


def _key_findings(client: ClientProfile) -> list[Finding]:
    whole = [
        finding
        for role, own in _own_settings(client)
        for finding in check_values(
            f"{_variable(client)}.{role}_settings", "all", own, _taken(client, role, own)
        )
    ]
    return whole + _unknown_keys(client)


def _taken(client: ClientProfile, role: Role, own: Mapping[str, Any]) -> dict[str, str]:
    """Return what each key of a person's own takes in the client's library."""
    if client.library == "librdkafka":
        known = takes(_LIBRDKAFKA_KEYS[role], client.version)
        return {key: known.get(_own_name(client, key), "") for key in own}
    known = takes(role, client_version(client.library, client.version))
    return {key: known.get(key.removeprefix("kafka."), "") for key in own}


def _own_settings(client: ClientProfile) -> tuple[tuple[Role, dict[str, Scalar]], ...]:
    return ("producer", client.producer_settings), ("consumer", client.consumer_settings)


def _variable(client: ClientProfile) -> str:
    return f"kafka_clients: {client.name}"


def _bare(key: str) -> str:
    return key.removeprefix("kafka.")


def _unknown_keys(client: ClientProfile) -> list[Finding]:
    if client.library == "librdkafka":
        return []
    version = client_version(client.library, client.version)
    findings: list[Finding] = []
    for role, own in _own_settings(client):
        where, variable = f"client {client.name}: {role}_settings", f"{_variable(client)}.{role}_settings"
        findings += check_keys(role, version, own, where, variable=variable, bare=_bare)
    return findings
