"""Checks of a client's settings: what loses records, what is refused, and what keeps it from starting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kedge.plan.settings import Sheet
from kedge.plan.values import int_or_zero, value_of
from kedge.services.clients.profiles import default_value

_DELIVERY: Final = "delivery.timeout.ms"


def check_batch(sheet: Sheet, what: str, key: str, takes: int, taker: str, rule: str) -> None:
    """Report a person's own batch.size that grows beyond what it is sent to takes."""
    batch = int_or_zero(value_of(sheet, key))
    if batch > takes and any(s.key == key and s.by == "person" for s in sheet.settings):
        sheet.warning(
            rule,
            f"{key}{sheet.of(what)} is {batch}, and {taker} takes {takes} bytes: a full batch that does "
            "not compress is refused, and sent again in parts",
            f"set {key} to {takes} or less, or leave it out",
            key,
        )


def check_acks(
    sheet: Sheet,
    what: str,
    acks: str,
    levels: Mapping[str, Any],
    mend: str,
    rule: str = "clients.acks",
    *,
    key: str,
) -> bool:
    """Report a producer whose acknowledged records can be lost where no loss is allowed; tell if it is so.

    ``acks`` is what is in force; ``what`` names the client, ``mend`` says what to do beside allowing loss.
    """
    delivery = levels.get("delivery") or {}
    if acks in ("all", "-1") or delivery.get("lost", 0) != 0:
        return False
    sheet.error(
        rule,
        f"{what} has acks={acks}{unwanted(sheet, 'lost')}: what a leader took is lost when it fails",
        f"{mend}, or allow loss",
        key,
    )
    return True


def unwanted(sheet: Sheet, kind: str) -> str:
    """Return that no record may be lost, duplicated or reordered, to be read after what does it."""
    return sheet.either(f", and service_levels.delivery.{kind} is 0", f" where no record may be {kind}")


def check_delivery(sheet: Sheet, what: str, prefix: str, version: str) -> None:
    """Report a Java producer that would refuse to start: it gives a record up before it was sent once.

    KafkaProducer throws where delivery.timeout.ms is set below linger.ms + request.timeout.ms; where it is
    not set, it raises it by itself. To be called when all keys of the producer, under ``prefix``, are put.
    """
    keys = [f"{prefix}{key}" for key in (_DELIVERY, "linger.ms", "request.timeout.ms")]
    delivery, linger, request = (
        int_or_zero(value_of(sheet, key) or default_value("java", version, key.removeprefix(prefix)))
        for key in keys
    )
    if not value_of(sheet, keys[0]) or delivery >= linger + request:
        return
    by = {s.key: s.by for s in sheet.settings if s.key in keys}
    own = [key for key in keys if by.get(key) == "person"]
    fix = f"take {' and '.join(own)} out"
    # A time of a request that is planned may follow that of the delivery, and grow with it.
    if keys[0] in own and by.get(keys[2]) != "plan":
        fix = f"set {keys[0]} to {linger + request} or more, or {fix}"
    sheet.error(
        "clients.delivery",
        f"{keys[0]}{sheet.of(what)} is {delivery}, below linger.ms and request.timeout.ms together, "
        f"{linger} + {request} ms: its producer refuses to start",
        fix,
        *own,
        *keys,
    )


def check_heartbeat(sheet: Sheet, what: str, prefix: str, version: str) -> None:
    """Report a Java consumer that would refuse to start: its session ends before its next heartbeat.

    AbstractCoordinator's heartbeat throws where heartbeat.interval.ms is not below session.timeout.ms. To be
    called when all keys of the consumer, under ``prefix``, are put.
    """
    keys = [f"{prefix}{key}" for key in ("heartbeat.interval.ms", "session.timeout.ms")]
    beat, session = (
        int_or_zero(value_of(sheet, key) or default_value("java", version, key.removeprefix(prefix)))
        for key in keys
    )
    own = [s.key for s in sheet.settings if s.by == "person" and s.key in keys]
    if own and beat >= session:
        sheet.error(
            "clients.heartbeat",
            f"{keys[0]}{sheet.of(what)} is {beat}, and the session of its group {session} ms: where a "
            "heartbeat is no sooner, consumers refuse to start",
            f"take {' and '.join(own)} out",
            *own,
        )
