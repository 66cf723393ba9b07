"""From samples of one run to its steady state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

#: After the last process has joined, this long passes before it counts, and then so long is measured.
SETTLE_S: Final = 3.0
WINDOW_S: Final = 5.0
#: Where the source is at its end before, at least so long must have been measured.
LEAST_S: Final = 2.0


def window(samples: Sequence[Mapping[str, float]], total: int) -> dict[str, Any]:
    """Return rates between the first sample and the last before the source was at its end.

    ``halves`` are the records/s of the first and the second half: how steady it was.

    Args:
        samples: in order of time: ``at_s``, ``records`` in the target, ``out_bytes``, ``produce_requests``.
        total: records in the source.

    Raises:
        ValueError: when they span less than :data:`LEAST_S`: too few records for a steady state.
    """
    steady = [s for s in samples if s["records"] < total]
    if len(steady) < 3 or steady[-1]["at_s"] - steady[0]["at_s"] < LEAST_S:
        raise ValueError(f"less than {LEAST_S:g} s of steady state: mirror more than {total:,} records")
    first, last = steady[0], steady[-1]
    middle = min(steady, key=lambda s: abs(s["at_s"] - (first["at_s"] + last["at_s"]) / 2))
    return {
        "seconds": round(last["at_s"] - first["at_s"], 2),
        "records_per_s": round(_rate(first, last, "records")),
        "halves": [round(_rate(*ends, "records")) for ends in ((first, middle), (middle, last))],
        "wire_mb_per_s": round(_rate(first, last, "out_bytes") / 1e6, 2),
        "requests_per_s": round(_rate(first, last, "produce_requests"), 1),
    }


def _rate(first: Mapping[str, float], last: Mapping[str, float], name: str) -> float:
    return (last[name] - first[name]) / (last["at_s"] - first["at_s"])
