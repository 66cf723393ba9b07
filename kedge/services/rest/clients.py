"""The clients inside a REST proxy: keys of their profile, acknowledgements, the protocol of their groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kedge.plan.jvm_flags import check_flags
from kedge.plan.settings import Choice, Sheet
from kedge.plan.values import int_or_none
from kedge.plan.version_numbers import numbers
from kedge.services.clients.client_checks import check_acks, check_consumer, check_producer
from kedge.services.clients.group_protocol import (
    CONSUMER,
    PROTOCOL,
    REFUSED,
    SESSION_MS,
    SOURCE,
    Obstacle,
    broker_obstacle,
    session_basis,
    session_ms,
)
from kedge.services.clients.profile_settings import put_profile
from kedge.services.clients.profiles import PROFILES, default_value
from kedge.services.rest.distribution import Distribution, RestProcess
from kedge.services.rest.source_names import GUIDE, MEASURED, REAL
from kedge.services.rest.variables import KafkaRest

#: kafka-rest forces idempotence off, and each consumer instance is told by its maker how it commits.
_SET_BY_PROXIES: Final = frozenset({"enable.idempotence", "enable.auto.commit"})
_FORCED: Final = {"enable.idempotence": "false"}


def put_client_profile(sheet: Sheet, file: str, process: RestProcess) -> None:
    """Put the keys of the clients' profile, where the inventory names one and the clients are Kafka's own."""
    distribution, variables = process.distribution, process.variables
    if distribution.clients is None:
        return
    version, prefix = distribution.clients(variables.version), distribution.keys.prefix
    for role in ("producer", "consumer"):
        put_profile(sheet, file, f"{prefix}{role}.", role, variables.profile, version, _SET_BY_PROXIES)


def check_start(sheet: Sheet, process: RestProcess) -> None:
    """Find what the JVM or the clients inside would not start with, once all keys are put."""
    distribution = process.distribution
    java = distribution.java(process.variables.version)
    if distribution.jvm and java:
        what = f"{distribution.title} {process.variables.version}"
        check_flags(sheet, distribution.jvm.options, java.least, process.java, what)
    if distribution.clients is not None:
        version = distribution.clients(process.variables.version)
        prefix = distribution.keys.prefix
        shared = tuple(f"{prefix}{begin}" for begin in distribution.keys.shared)
        # Neither makes its producer before a request asks for it.
        late = "each produce request fails"
        forced = {} if prefix else _FORCED
        check_producer(sheet, "the proxy", f"{prefix}producer.", version, late, shared=shared, forced=forced)
        check_consumer(sheet, "the proxy", f"{prefix}consumer.", version, *shared)


def check_clients(
    sheet: Sheet, distribution: Distribution, variables: KafkaRest, levels: Mapping[str, Any]
) -> None:
    """Find a profile that this build has no keys for, and acknowledgements that the service levels forbid."""
    if distribution.clients is None:
        if variables.profile:
            sheet.warning(
                "rest.profile",
                f"kafka_rest_profile has no effect: the clients of {distribution.title} have keys of their "
                "own",
                "take it out",
                variable="kafka_rest_profile",
            )
        return
    prefix = distribution.keys.prefix
    key = f"{prefix}producer.acks"
    own = variables.settings.get(key)
    rows = PROFILES[variables.profile]["producer"] if variables.profile else ()
    of_profile = next((row.value for row in rows if row.key == "acks"), None)
    acks = str(own or of_profile or default_value("java", distribution.clients(variables.version), "acks"))
    named = f" (kafka_rest_profile {variables.profile})" if variables.profile else ""
    in_files = f"write {key}: all"
    mend = sheet.either(f"use kafka_rest_profile balanced, or {key}: all in {sheet.variable}", in_files)
    what = f"the producer of the REST proxy{named}"
    check_acks(sheet, what, acks, levels, mend, "rest.clients.acks", key=key)
    begins = (f"{prefix}producer.", *(f"{prefix}{one}" for one in distribution.keys.shared if prefix or one))
    tries = next((name for one in begins if (name := f"{one}retries") in variables.settings), "")
    if acks != "0" and tries and int_or_none(variables.settings[tries]) == 0:
        sheet.warning(
            "rest.producer.retries",
            f"{tries} is 0: a record whose partition's leader has just moved is an error for its client",
            f"take {tries}{sheet.out}: the producer tries again until delivery.timeout.ms",
            tries,
        )


_RULE: Final = "rest.consumer.protocol"
_SESSION: Final = "session.timeout.ms"


def plan_groups(sheet: Sheet, file: str, process: RestProcess) -> bool:
    """Plan the protocol of the groups, and of a classic one the session.

    Returns:
        Whether the groups can speak the consumer protocol, and nobody asks for another.
    """
    keys = process.distribution.keys
    prefix = f"{keys.prefix}consumer."
    prefixes = (prefix, *(f"{keys.prefix}{shared}" for shared in keys.shared))
    refused = [name for p in prefixes for k in REFUSED if sheet.own(name := f"{p}{k}") is not None]
    asking = next((name for p in prefixes if sheet.own(name := f"{p}{PROTOCOL}")), "")
    asked = (sheet.own(asking) or "").lower()
    obstacle = _obstacle(process)
    if asked == CONSUMER:
        _check_asked(sheet, asking, refused, obstacle)
    elif obstacle is None and refused:
        obstacle = Obstacle(
            sheet.either(f"{sheet.variable} have {refused[0]}", f"{refused[0]} is set")
            + ", with which a consumer of that protocol does not start",
            SOURCE,
            fix=f"take {' and '.join(refused)}{sheet.out}",
            keys=tuple(refused),
        )
    obstacle = obstacle or _session_obstacle(process)
    # A key under a shared prefix is left where its person put it.
    if not asked or sheet.own(f"{prefix}{PROTOCOL}") is not None:
        _put_protocol(sheet, file, f"{prefix}{PROTOCOL}", process, obstacle)
    if asked == CONSUMER or (not asked and obstacle is None):
        if process.stall_s is not None and asked and (late := _session_obstacle(process)):
            sheet.warning(_RULE, f"{late.why} ({late.source})", _fix_of_session(process), asking)
        return True
    _put_session(sheet, file, f"{prefix}{_SESSION}", process)
    return False


def _obstacle(process: RestProcess) -> Obstacle | None:
    """Return what keeps the groups from the consumer protocol, of the proxy or of its brokers."""
    distribution, variables = process.distribution, process.variables
    groups = distribution.groups
    if groups.since is None or numbers(variables.version) < groups.since:
        since = f" before {'.'.join(map(str, groups.since))}" if groups.since else ""
        return Obstacle(
            f"no consumer of {distribution.title}{since} has it"
            if since
            else f"no consumer of {distribution.title} has it: {groups.because}",
            groups.source,
            fix=f"upgrade {distribution.title} to {since.removeprefix(' before ')} or newer" if since else "",
        )
    return broker_obstacle(process.coordinator, variables.cluster)


def _session_obstacle(process: RestProcess) -> Obstacle | None:
    """Return that the session of the group, which is the brokers', is longer than a stall may be."""
    session, stall = process.coordinator.session_ms, process.stall_s
    if session is None or stall is None or session <= stall * 1000:
        return None
    why = (
        f"the session of its groups is the brokers' {session} ms, which is how long a killed proxy's "
        f"partitions stop, and service_levels.rebalance.consume_stall_s allows {stall:g} s"
    )
    return Obstacle(why, SOURCE, fatal=False, fix=_fix_of_session(process))


def _fix_of_session(process: RestProcess) -> str:
    if process.coordinator.ours:
        return "take group.consumer.session.timeout.ms out of kafka_broker_settings"
    return (
        "set group.consumer.session.timeout.ms and its min on the brokers, and "
        f"kafka_clusters.{process.variables.cluster}.group_session_ms"
    )


def _put_protocol(sheet: Sheet, file: str, key: str, process: RestProcess, obstacle: Obstacle | None) -> None:
    groups = process.distribution.groups
    documented = Choice(None, f"the guide does not name {key}", GUIDE, "documented")
    if obstacle is None:
        because = (
            "a member that comes or goes moves its own partitions, where the classic protocol stops all of "
            f"the group; the price: {groups.price}; {groups.because}; the session is the group's, "
            f"{process.coordinator.session_ms} ms on the brokers"
        )
        source = (
            f"{MEASURED}, Groups and restarts; {REAL}, What the consumer protocol takes; "
            f"{REAL}, Records of a poll"
        )
        measured = Choice(CONSUMER, because, source, "measured")
        sheet.put(file, key, _RULE, documented, measured)
        return
    sheet.put(file, key, _RULE, documented, Choice(None, obstacle.why, obstacle.source, "derived"))
    if process.variables.workload.consumers and sheet.advice == "measured":
        sheet.note(
            _RULE,
            f"groups speak the classic protocol, in which each restart stops all of a group: {obstacle.why} "
            f"({obstacle.source})",
            f"to get {CONSUMER}: {obstacle.fix}" if obstacle.fix else "",
            key,
            file=file,
            named=obstacle.keys,
        )


def _check_asked(sheet: Sheet, asked: str, refused: list[str], obstacle: Obstacle | None) -> None:
    """Find what is at odds with the consumer protocol that a person asks for by the key ``asked``."""
    if refused:
        plural = "are" if len(refused) > 1 else "is"
        sheet.error(
            _RULE,
            sheet.either(
                f"{sheet.variable} ask for the consumer protocol and have {', '.join(refused)}",
                f"{asked} asks for the consumer protocol, and {', '.join(refused)} {plural} set",
            )
            + f": a consumer that has both does not start ({SOURCE})",
            f"take {' and '.join(refused)}{sheet.out}: in that protocol the brokers "
            "set session and assignor of a group (group.consumer.session.timeout.ms, "
            "group.consumer.assignors)",
            *refused,
            asked,
        )
    if obstacle is not None:
        report = sheet.error if obstacle.fatal else sheet.warning
        report(
            _RULE,
            sheet.either(f"{sheet.variable} ask", f"{asked} asks")
            + f" for the consumer protocol: {obstacle.why} ({obstacle.source})",
            f"take {asked}{sheet.out}" + (f", or {obstacle.fix}" if obstacle.fix else ""),
            asked,
        )


def _put_session(sheet: Sheet, file: str, key: str, process: RestProcess) -> None:
    """Plan how long a dead member holds the partitions of a classic group."""
    if process.stall_s is None:
        return
    sheet.put(
        file,
        key,
        "rest.consumer.session",
        Choice(None, f"the guide does not name {key}", GUIDE, "documented"),
        Choice(
            session_ms(process.stall_s),
            f"two thirds of the {process.stall_s:g} s for which service_levels.rebalance.consume_stall_s "
            "lets a group get nothing: a killed proxy stops its groups for the whole session, "
            f"{SESSION_MS // 1000} s by default",
            f"{MEASURED}, Groups and restarts",
            session_basis(process.stall_s),
        ),
    )
