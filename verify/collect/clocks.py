"""How far a host's clock is from this machine's, from round trips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

#: How often a host is asked: the shortest trip counts.
ROUND_TRIPS: Final = 15


class RoundTrip(NamedTuple):
    """Asked, answered (this machine's clock) and what the host's clock said in between; microseconds."""

    asked_us: int
    host_us: int
    answered_us: int


class ClockOffset(NamedTuple):
    """The host's clock less this machine's, and how far that may be from the truth; microseconds."""

    offset_us: int
    error_us: int


def offset(trips: Sequence[RoundTrip]) -> ClockOffset:
    """Return the offset by the shortest round trip: the host looked at its clock within it, hence half of it.

    Raises ValueError without a round trip.
    """
    best = min(trips, key=lambda trip: trip.answered_us - trip.asked_us)
    middle = (best.asked_us + best.answered_us) // 2
    return ClockOffset(best.host_us - middle, (best.answered_us - best.asked_us + 1) // 2)
