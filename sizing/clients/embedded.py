"""A profile's keys for a client inside a service: the REST Proxy's and MirrorMaker's, from the same rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from sizing.clients.profiles import PROFILES, Library, Profile, ProfileRow, Role, default_value, key_name
from sizing.core.settings import KIB, Choice, Sheet
from sizing.core.values import int_or_zero, value_of

#: Room that a library already gives by default is never taken away.
_ONLY_RAISED: Final = frozenset({"batch.size", "buffer.memory", "delivery.timeout.ms"})
_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
_DELIVERY: Final = "delivery.timeout.ms"


def choice(profile: Profile, row: ProfileRow, library: Library, version: str) -> Choice:
    """Return a row as a choice for a version of a library: its reason, its price, and what unset would be."""
    kib = library == "librdkafka" and row.key == "buffer.memory"
    value = str(-(-int(row.value) // KIB)) if kib else row.value
    default = default_value(library, version, row.key)
    because = f"{row.because}; the price: {row.price}"
    if default is None:
        return Choice(value, because, row.source, row.basis)
    raised = row.key in _ONLY_RAISED or (profile == "throughput" and row.key == _IN_FLIGHT)
    named = f"{library} {version}"
    if raised and int_or_zero(default) > int_or_zero(value):
        return Choice(
            default,
            f"the default of {named} is above the profile's {value}, and stays",
            row.source,
            "documented",
        )
    unset = "the same" if default == value else default
    return Choice(value, f"{because}; unset, {named} has {unset}", row.source, row.basis)


def within(chosen: Choice, takes: int, taker: str) -> Choice:
    """Return a batch.size that ``taker`` takes: a full batch that does not compress would be refused."""
    if int_or_zero(chosen.value) <= takes:
        return chosen
    because = f"the most that {taker} takes; else {chosen.value}: {chosen.because}"
    return Choice(takes, because, chosen.source, "derived")


def check_batch(sheet: Sheet, what: str, key: str, takes: int, taker: str, rule: str) -> None:
    """Report a person's own batch.size that grows beyond what it is sent to takes."""
    batch = int_or_zero(value_of(sheet, key))
    if batch > takes and any(s.key == key and s.by == "person" for s in sheet.settings):
        sheet.warning(
            rule,
            f"{key} of {what} is {batch}, and {taker} takes {takes} bytes: a full batch that does not "
            "compress is refused, and sent again in parts",
            f"set {key} to {takes} or less, or leave it out",
        )


def put_profile(
    sheet: Sheet,
    file: str,
    prefix: str,
    role: Role,
    profile: Profile | None,
    version: str,
    service: Collection[str] = (),
) -> None:
    """Put a profile's keys for a Java client of a service, under the prefix that the service gives them.

    Keys that a rule of the service has put already are left to it, and those in ``service`` are left out: the
    service sets them by itself. Nothing is put without a profile.
    """
    if profile is None:
        return
    put = {setting.key for setting in sheet.settings}
    for row in PROFILES[profile][role]:
        key = f"{prefix}{key_name('java', row.key)}"
        if key not in put and row.key not in service:
            sheet.put(file, key, f"clients.{profile}.{row.key}", choice(profile, row, "java", version))


def check_acks(
    sheet: Sheet, what: str, acks: str, levels: Mapping[str, Any], mend: str, rule: str = "clients.acks"
) -> bool:
    """Report a producer whose acknowledged records can be lost where no loss is allowed; tell if it is so.

    ``acks`` is what is in force; ``what`` names the client, ``mend`` says what to do beside allowing loss.
    """
    delivery = levels.get("delivery") or {}
    if acks in ("all", "-1") or delivery.get("lost", 0) != 0:
        return False
    sheet.error(
        rule,
        f"{what} has acks={acks}, and service_levels.delivery.lost is 0: what a leader took is lost when it "
        "fails",
        f"{mend}, or allow loss",
    )
    return True


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
        f"{keys[0]} of {what} is {delivery}, below linger.ms and request.timeout.ms together, {linger} + "
        f"{request} ms: its producer refuses to start",
        fix,
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
            f"{keys[0]} of {what} is {beat}, and the session of its group {session} ms: where a heartbeat is "
            "no sooner, consumers refuse to start",
            f"take {' and '.join(own)} out",
        )
