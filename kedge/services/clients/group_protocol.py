"""Which protocol a consumer group speaks: what its clients and its brokers need, and what it then forbids.

The classic protocol stops every member of a group for each that comes or goes. The consumer protocol
(KIP-848) moves the partitions that have to move. Its time-outs and assignors are the group's, on the brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kedge.plan.findings import WITH_INVENTORY, Reader
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import KafkaCluster
from kedge.plan.inventory.service_levels import service_levels
from kedge.plan.settings import Basis, Choice, Sheet
from kedge.plan.values import int_or_zero
from kedge.plan.version_numbers import numbers
from kedge.services.clients.profiles import Library, client_version
from kedge.services.clients.variables import ClientProfile

PROTOCOL: Final = "group.protocol"
CONSUMER: Final = "consumer"
#: A client of the consumer protocol that is given one of these does not start.
REFUSED: Final = ("heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms")
SOURCE: Final = "Kafka documentation, Consumer Rebalance Protocol"

#: group.consumer.session.timeout.ms and group.consumer.heartbeat.interval.ms as brokers come; their least
#: values are the same.
SESSION_MS: Final = 45_000
HEARTBEAT_MS: Final = 5_000
#: group.min.session.timeout.ms of a broker, and what its clients' classic sessions may not go below.
_SHORTEST_SESSION_MS: Final = 6_000
_READY: Final[Mapping[Library, tuple[int, ...]]] = {"java": (4, 0), "librdkafka": (2, 12)}
_BROKER_READY: Final = (4, 0)
_MEASURED: Final = "Rebalance measurements, By assignor and protocol"
_ASSIGNOR: Final = "partition.assignment.strategy"
_COOPERATIVE: Final = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
#: From here on the default list has it as the second: members with and without this line share a group.
_BOTH: Final = (3, 0)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a group should not speak the consumer protocol; ``fatal`` where its members could not at all.

    ``fix`` is the step that removes the obstacle; empty where none is known. ``keys`` is what it takes out.
    """

    why: str
    source: str
    fatal: bool = True
    fix: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Defect:
    """A defect of the versions from ``since`` on and before ``mended``, on the way to ``mended``'s fix."""

    since: tuple[int, ...]
    mended: tuple[int, ...]
    what: str
    source: str


_BROKER_DEFECTS: Final = tuple(
    _Defect(
        since,
        mended,
        "cannot always load its groups while their log is compacted, so that they are gone until it can",
        "KAFKA-19862",
    )
    for since, mended in (((4, 0), (4, 0, 2)), ((4, 1), (4, 1, 2)))
)
_CLIENT_DEFECTS: Final[Mapping[Library, tuple[_Defect, ...]]] = {
    "librdkafka": (
        _Defect(
            (2, 12),
            (2, 15),
            "was seen to read nothing for 1 to 3 minutes while a group of it moved partitions",
            "node-rdkafka issue 1146",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The brokers' side of a cluster's groups.

    Attributes:
        version: of the brokers.
        ours: the kit runs them, so that the plan gives their groups a session.
        session_ms: the session of a group of the consumer protocol; None where nobody says.
        protocols: those that a person's own settings of the brokers allow; empty for as they come.
    """

    version: str
    ours: bool
    session_ms: int | None
    protocols: str = ""
    reader: Reader = WITH_INVENTORY


def session_ms(stall_s: float | None) -> int:
    """Return the session of a group that may get nothing for ``stall_s``: two thirds, 6 s to 45 s."""
    if stall_s is None:
        return SESSION_MS
    return max(_SHORTEST_SESSION_MS, min(SESSION_MS, int(stall_s * 1000 * 2 / 3)))


def session_basis(stall_s: float | None) -> Basis:
    """Return what that session rests on: the two thirds are a judgement, Kafka's bounds are not."""
    return "documented" if session_ms(stall_s) in (_SHORTEST_SESSION_MS, SESSION_MS) else "estimate"


def stall_s(inventory: Inventory) -> float | None:
    """Return how long the service levels let a group get nothing; None where they do not say."""
    rebalance = service_levels(inventory).get("rebalance")
    stall = rebalance.get("consume_stall_s") if isinstance(rebalance, Mapping) else None
    return float(stall) if isinstance(stall, int | float) and stall > 0 else None


def coordinator(inventory: Inventory, cluster: KafkaCluster) -> Coordinator:
    """Return what the groups of a cluster find at its brokers."""
    if cluster.brokers is None:
        given = cluster.group_session_ms
        return Coordinator(cluster.version, ours=False, session_ms=given, reader=inventory.reader)
    hosts = inventory.group(cluster.brokers)
    own: Mapping[str, Any] = (inventory.hosts[hosts[0]].get("kafka_broker_settings") or {}) if hosts else {}
    session = int_or_zero(own.get("group.consumer.session.timeout.ms")) or session_ms(stall_s(inventory))
    return Coordinator(
        cluster.version,
        ours=True,
        session_ms=session,
        protocols=str(own.get("group.coordinator.rebalance.protocols", "")),
    )


def takes_consumer_protocol(version: str) -> bool:
    """Return whether brokers of a version have the consumer protocol, and turn it on by default."""
    return numbers(version) >= _BROKER_READY


def broker_obstacle(brokers: Coordinator, cluster: str) -> Obstacle | None:
    """Return what at its brokers keeps a group from the consumer protocol; None for nothing."""
    name = f"kafka_clusters.{cluster}"
    if not takes_consumer_protocol(brokers.version):
        why = f"{name}.version is {brokers.version}, and brokers have the consumer protocol from 4.0 on"
        return Obstacle(why, SOURCE, fix=f"upgrade the brokers to 4.0 or newer, and correct {name}.version")
    if brokers.protocols and CONSUMER not in brokers.protocols.replace(" ", "").split(","):
        why = (
            f"kafka_broker_settings turn it off (group.coordinator.rebalance.protocols: {brokers.protocols})"
        )
        fix = f"add {CONSUMER} to group.coordinator.rebalance.protocols in kafka_broker_settings"
        return Obstacle(why, "the inventory", fix=fix)
    if brokers.session_ms is None:
        why = (
            f"it is not said whether the brokers of {cluster} have it turned on (the feature group.version), "
            f"and with which session{brokers.reader.either(f': {name}.group_session_ms', '')}"
        )
        fix = (
            f"turn the feature group.version on at the brokers of {cluster}, "
            + brokers.reader.either(f"and set {name}.group_session_ms to", "and look at")
            + " their group.consumer.session.timeout.ms"
        )
        return Obstacle(why, SOURCE, fatal=False, fix=fix)
    return _defect(_BROKER_DEFECTS, brokers.version, f"a broker of {brokers.version}", "the brokers")


def client_obstacle(library: Library, version: str) -> Obstacle | None:
    """Return what in a client keeps it from the consumer protocol; None for nothing."""
    if library == "spark":
        return Obstacle("Spark assigns its partitions by itself, without a group", SOURCE)
    ready = _READY[library]
    if numbers(client_version(library, version)) < ready:
        said = ".".join(map(str, ready))
        why = f"the client is {library} {version}, which has it for use from {said} on"
        source = SOURCE if library == "java" else "librdkafka, its changelog"
        return Obstacle(
            why, source, fix=f"upgrade {library} to {said} or newer, and correct the client's version"
        )
    return _defect(_CLIENT_DEFECTS.get(library, ()), version, f"{library} {version}", library)


def _defect(defects: tuple[_Defect, ...], version: str, subject: str, software: str) -> Obstacle | None:
    """Return the first defect that a version of the software has."""
    for defect in defects:
        if defect.since <= numbers(version) < defect.mended:
            mended = ".".join(map(str, defect.mended))
            why = f"{subject} {defect.what}; {mended} does not"
            return Obstacle(why, defect.source, fatal=False, fix=f"upgrade {software} to {mended} or newer")
    return None


def put_group(sheet: Sheet, file: str, client: ClientProfile, brokers: Coordinator) -> None:
    """Put the protocol of a consumer's group, and report what is at odds with it."""
    refused = [key for key in REFUSED if sheet.own(key) is not None]
    asked = (sheet.own(PROTOCOL) or "").lower()
    obstacle = client_obstacle(client.library, client.version) or broker_obstacle(brokers, client.cluster)
    if asked == CONSUMER:
        _check_asked(sheet, client, refused, obstacle)
    if asked or client.library == "spark":
        return
    if obstacle is None and refused:
        obstacle = Obstacle(
            sheet.either(f"consumer_settings have {refused[0]}", f"{refused[0]} is set")
            + ", with which a consumer of that protocol does not start",
            SOURCE,
        )
    if obstacle is None:
        because = (
            "a member that comes or goes moves its own partitions, and no other stops; the price: the "
            f"session is the group's, {brokers.session_ms} ms on the brokers, and so is the assignor"
        )
        sheet.put(
            file,
            PROTOCOL,
            f"clients.{client.profile}.{PROTOCOL}",
            Choice(CONSUMER, because, _MEASURED, "measured"),
        )
    elif client.library == "java" and numbers(client.version) >= _BOTH and sheet.own(_ASSIGNOR) is None:
        because = (
            f"the classic protocol, because {obstacle.why}; with this assignor a rebalance takes away what "
            "has to move, not all; the price: it takes two rounds"
        )
        sheet.put(
            file,
            _ASSIGNOR,
            f"clients.{client.profile}.{_ASSIGNOR}",
            Choice(_COOPERATIVE, because, obstacle.source, "derived"),
        )


def _check_asked(sheet: Sheet, client: ClientProfile, refused: list[str], obstacle: Obstacle | None) -> None:
    """Find what is at odds with the consumer protocol that a person asks for."""
    out = sheet.either(" out of consumer_settings", " out")
    what = sheet.either(f"consumer_settings of client {client.name} ask", f"{PROTOCOL} asks")
    what += " for the consumer protocol"
    has = sheet.either("have", "others are set:")
    if refused:
        sheet.error(
            "clients.group_protocol",
            f"{what} and {has} {', '.join(refused)}: a consumer that has both does not start ({SOURCE})",
            f"take {' and '.join(refused)}{out}: in that protocol the brokers set session and assignor of a "
            "group",
            *refused,
            PROTOCOL,
        )
    if obstacle is not None:
        report = sheet.error if obstacle.fatal else sheet.warning
        report(
            "clients.group_protocol",
            f"{what}: {obstacle.why} ({obstacle.source})",
            f"take {PROTOCOL}{out}" + (f", or {obstacle.fix}" if obstacle.fix else ""),
            PROTOCOL,
        )
