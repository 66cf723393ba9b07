"""Rules for groups of a proxy's consumers: which protocol they speak, how long a dead member counts."""

from __future__ import annotations

from typing import Final

from kedge.plan.settings import Choice, Sheet
from kedge.plan.version_numbers import numbers
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
from kedge.services.rest.distribution import RestProcess
from kedge.services.rest.source_names import GUIDE, MEASURED, REAL

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
