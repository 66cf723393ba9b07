"""Gaps: the longest times between consecutive events, by key, and what a restart had to do with them.

Events come as grains (spark_checks.engine.facts), of which there are some a second and partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
    idle = produce_gaps[[*on, "from_us", "to_us"]].rename(
        columns={"from_us": "idle_from", "to_us": "idle_to"}
    )
    # Both sides hold the gaps of one restart's seconds in one partition: hundreds, not records.
    joined = long.merge(idle, on=on, how="left")
    shared = np.minimum(joined["to_us"], joined["idle_to"]) - np.maximum(
        joined["from_us"], joined["idle_from"]
    )
    joined["shared"] = shared.fillna(0).clip(lower=0).astype(np.int64)
    named = [*on, "group", "from_us", "to_us"]
    found = joined.groupby(named, as_index=False, observed=True)["shared"].max()
    return found.assign(stall_us=found["to_us"] - found["from_us"] - found["shared"]).drop(columns="shared")


def worst(found: pd.DataFrame, by: Sequence[str], length: str, where: Sequence[str]) -> pd.DataFrame:
    """Return for each ``by``, in order, the row of the longest, and of equally long ones the last."""
    order = found.sort_values([length, "from_us", *where], kind="stable")
    return order.drop_duplicates([*by], keep="last").sort_values([*by])
