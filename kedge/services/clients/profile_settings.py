"""A profile's rows as settings, for clients of their own and for those inside services."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kedge.plan.settings import KIB, Choice, Sheet
from kedge.plan.values import int_or_zero
from kedge.services.clients.profiles import (
    PROFILES,
    Library,
    Profile,
    ProfileRow,
    Role,
    default_value,
    key_name,
)

#: Room that a library already gives by default is never taken away.
_ONLY_RAISED: Final = frozenset({"batch.size", "buffer.memory", "delivery.timeout.ms"})
_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"


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
