"""Warming processes up before what they do is compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from trials.progress import RunLog

#: Warming up takes so many times as long at most, and ends where a round takes more than this share of the
#: processor time a record of the round before, in small requests or in those of the load.
MOST: Final = 4
_STEADY_SMALL: Final = 0.8
_STEADY: Final = 0.95


def warm_up(rounds: Callable[..., float | None], fresh_s: float, log: RunLog, *, small: bool) -> None:
    """Load processes until a record takes hardly less of their processors than a moment before.

    A search whose processes get quicker from trial to trial finds no limit (docs/measurements/trials.md), and
    variants that are still being compiled are compared by their compilers.
    ``rounds`` loads them for so many seconds, in ``small`` requests or in those of the load, and returns the
    processor time a record (microseconds).
    """
    before, steady = math.inf, _STEADY_SMALL if small else _STEADY
    for number in range(2 * MOST if fresh_s else 0):
        took = rounds(fresh_s / 2, small=small)
        if took is not None:
            log.say(f"  warming up: {took:.0f} µs of processor time a record")
        if number and (took is None or took > steady * before):
            return
        before = took or before
