"""When each record of a load is due, and for how long its producer rests until then.

Record ``i`` of a producer (its seq) is due at ``start + i / rate``; that moment is its intended time, whether
or not the producer keeps up, so that falling behind shows as latency. A REST producer sends arrays: all
records of an array are due when its first one is.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

#: Records that become due within it are handed over together.
SLICE_S: Final = 0.005
_LONGEST_REST_S: Final = 0.1

Longs = npt.NDArray[np.int64]


def due_us(start_us: int, rate: float, seq: Longs, per_request: int = 1) -> Longs:
    """Return when records are due (microseconds since the epoch); ``rate`` is records/s."""
    first_of_request = seq - seq % per_request
    return start_us + (first_of_request * 1_000_000 / rate).astype(np.int64)


def count_due(start_us: int, rate: float, now_us: int, per_request: int = 1) -> int:
    """Return how many records are due at a time, counting from seq 0."""
    if now_us < start_us:
        return 0
    # A record more than the quotient, as seq 0 is due at the start; then settled against due_us,
    # because a float may lie on either side of a whole number.
    count = int((now_us - start_us) * rate / 1_000_000 // per_request + 1) * per_request
    while count and int(due_us(start_us, rate, np.array([count - 1]), per_request)[0]) > now_us:
        count -= per_request
    return count


def rest_s(start_us: int, rate: float, sent: int, now_us: int, per_request: int = 1) -> float:
    """Return for how long a producer that has sent ``sent`` records may rest.

    Many records or requests a second go by slices of :data:`SLICE_S`, and so does what is late. Else it is
    the time until the next one is due, or until the producer has to see whether it shall end.
    """
    if rate * SLICE_S >= per_request:
        return SLICE_S
    until_due_s = (int(due_us(start_us, rate, np.array([sent]))[0]) - now_us) / 1_000_000
    return min(until_due_s, _LONGEST_REST_S) if until_due_s > 0 else SLICE_S
