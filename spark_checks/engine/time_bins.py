"""How wide the bins of time are by which checks count, and how many of them a chart gets."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from kedge.evidence.run import Run

#: Counts and percentiles over time are by bins of this width, a second: checks and pictures count on that.
BIN_US: Final = 1_000_000
#: Events closer than this are one: it bounds what is kept by the run's length instead of its records.
#: Gaps longer than this are exact to the microsecond.
GRAIN_US: Final = 10_000
#: Grains are wider where there would be more of them: by so many rows memory is bounded.
_MOST_GRAINS: Final = 8_000_000
#: A line over time has as many points at most: more than a screen has pixels only slow it down. Latencies of
#: longer runs are by some seconds together.
MOST_POINTS: Final = 2_000


def second_of(at: str, run: Run) -> Column:
    """Return the whole second since the steady window's begin that a time lies in."""
    return F.floor((F.col(at) - run.measured_from_us) / BIN_US).cast("int")


def grain_us(run: Run) -> int:
    """Return how wide a grain is: 10 ms, or more where a long run of many partitions had too many of them."""
    places = sum(topic.partitions for topic in run.topics) * (1 + len(run.groups))
    grains = run.measured_s * 1e6 / GRAIN_US * places
    return GRAIN_US * max(1, -(-int(grains) // _MOST_GRAINS))
