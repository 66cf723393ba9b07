"""Gaps: the longest times between consecutive events, by key, and what a restart had to do with them.

Events come as grains (spark_checks.engine.facts), of which there are some a second and partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from spark_checks.rebalance.restarts import Restart

#: Shorter times without a delivery are a consumer's poll, no stall.
STALL_AT_LEAST_US: Final = 100_000


def gaps(grains: pd.DataFrame, keys: Sequence[str], begin_us: int, end_us: int) -> pd.DataFrame:
    """Return the gaps between consecutive grains of a key: keys, from_us, to_us.

    The time from ``begin_us`` to a key's first event and from its last to ``end_us`` are gaps too: a key
    that went silent for good must not look well.
    """
    by = [*keys]
    inside = grains[(grains["last_us"] >= begin_us) & (grains["first_us"] <= end_us)]
    merged = inside.groupby([*by, "grain"], as_index=False, sort=False, observed=True).agg(
        first_us=("first_us", "min"), last_us=("last_us", "max")
    )
    places = inside[by].drop_duplicates()
    edges = [places.assign(first_us=at, last_us=at) for at in (begin_us, end_us)]
    rows = pd.concat([merged[[*by, "first_us", "last_us"]], *edges], ignore_index=True)
    rows = rows.sort_values([*by, "first_us", "last_us"], ignore_index=True)
    key = rows.groupby(by, sort=False, observed=True).ngroup().to_numpy()
    found = (
        rows[by]
        .iloc[:-1]
        .assign(from_us=rows["last_us"].to_numpy()[:-1], to_us=rows["first_us"].to_numpy()[1:])
    )
    return found[(key[1:] == key[:-1]) & (found["to_us"] > found["from_us"])]


def during(found: pd.DataFrame, restarts: Sequence[Restart]) -> pd.DataFrame:
    """Return each gap with every restart whose time it touches: the gap, restart."""
    touched = [found[_touches(found, one)].assign(restart=one.number) for one in restarts]
    return pd.concat(touched, ignore_index=True)


def outside(found: pd.DataFrame, restarts: Sequence[Restart]) -> pd.DataFrame:
    """Return the gaps that touch no restart."""
    apart = np.ones(len(found), bool)
    for one in restarts:
        apart &= ~_touches(found, one)
    return found[apart]


def _touches(found: pd.DataFrame, one: Restart) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    touches: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
        (found["from_us"] < one.until_us) & (found["to_us"] > one.begin_us)
    ).to_numpy()
    return touches


def stalls(delivery_gaps: pd.DataFrame, produce_gaps: pd.DataFrame) -> pd.DataFrame:
    """Take from each gap between deliveries the longest time within it in which nothing was acknowledged.

    One such time and not their sum: where records come every 20 ms, each 20 ms is a gap, and their sum would
    explain away every stall.

    Args:
        delivery_gaps: restart, group, topic, partition, from_us, to_us.
        produce_gaps: restart, topic, partition, from_us, to_us; gaps of one partition do not overlap.

    Returns:
        delivery_gaps with ``stall_us``, those long enough to be a stall.
    """
    on = ["restart", "topic", "partition"]
    long = delivery_gaps[delivery_gaps["to_us"] - delivery_gaps["from_us"] >= STALL_AT_LEAST_US]
    named = [*on, "group", "from_us", "to_us"]
    found = long[named].drop_duplicates().sort_values(named, ignore_index=True)
    ends = ["from_us", "to_us"]
    # Gaps of one partition do not overlap, so that those which touch a time follow one another.
    idle = {key: mine[ends].sort_values(ends).to_numpy() for key, mine in produce_gaps.groupby(on)}
    none = np.empty((0, 2), np.int64)
    shared = [
        _longest_within(idle.get((restart, topic, partition), none), begin, end)
        for restart, topic, partition, _, begin, end in found.itertuples(index=False)
    ]
    return found.assign(stall_us=found["to_us"] - found["from_us"] - np.array(shared, np.int64))


def _longest_within(idle: Any, begin: int, end: int) -> int:
    """Return the longest part of one of these times (from, to), in order, that lies between two times."""
    first, last = np.searchsorted(idle[:, 1], begin), np.searchsorted(idle[:, 0], end)
    some = idle[first:last]
    if not len(some):
        return 0
    parts = np.minimum(some[:, 1], end) - np.maximum(some[:, 0], begin)
    return max(0, int(parts.max()))


def worst(found: pd.DataFrame, by: Sequence[str], length: str, where: Sequence[str]) -> pd.DataFrame:
    """Return for each ``by``, in order, the row of the longest, and of equally long ones the last."""
    order = found.sort_values([length, "from_us", *where], kind="stable")
    return order.drop_duplicates([*by], keep="last").sort_values([*by])
