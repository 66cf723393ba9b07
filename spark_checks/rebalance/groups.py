"""A consumer group around restarts: when it was not stable, and how far it lagged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from kedge.evidence.run import Run
from spark_checks.rebalance.restarts import Restart

PLACE: Final = ["group", "topic", "partition"]
_BUCKET_US: Final = 100_000
_MOST_BUCKETS: Final = 20_000


def not_stable(states: pd.DataFrame, restarts: Sequence[Restart], run: Run) -> list[dict[str, Any]]:
    """Sum the time from each sample that is not Stable to the next one, within each restart's time.

    Returns:
        restart, group, unstable_us, blind_us (time between samples further apart than three intervals, in
        which the group may have been anything), spacing_us (the largest).
    """
    interval = run.sampling_us.get("group_states", 100_000)
    found: list[dict[str, Any]] = []
    watched = states[states["group"].isin(run.watched_groups())].sort_values("at_us", kind="stable")
    for group, mine in watched.groupby("group"):
        at, stable = mine["at_us"].to_numpy(), (mine["state"].str.lower() == "stable").to_numpy()[:-1]
        begin, end = at[:-1], at[1:]
        for one in restarts:
            touches = (begin < one.until_us) & (end > one.begin_us)
            if not touches.any():
                continue
            inside = np.minimum(end, one.until_us) - np.maximum(begin, one.begin_us)
            spacing = end - begin
            found.append({
                "restart": one.number,
                "group": group,
                "unstable_us": int(inside[touches & ~stable].sum()),
                "blind_us": int(inside[touches & stable & (spacing > 3 * interval)].sum()),
                "spacing_us": int(spacing[touches].max()),
            })  # fmt: skip
    return found


def lag(
    acked: pd.DataFrame, delivered: pd.DataFrame, run: Run, pairs: Sequence[tuple[str, str]]
) -> tuple[pd.DataFrame, int]:
    """Return each group's lag over time, and the width of a bucket in microseconds.

    Lag is the sum over partitions of the highest acknowledged offset less the highest delivered one, as
    known at the end of a bucket; redelivery does not lower it.

    Args:
        acked: grains of acknowledgements by (topic, partition).
        delivered: grains of deliveries by (group, topic, partition).
        run: run.json.
        pairs: each group with each of its topics.

    Returns:
        (group, at_us: a bucket's end, lag: records), of the steady window; a row a bucket and group.
    """
    span = run.measured_until_us - run.measured_from_us
    width = max(_BUCKET_US, -(-span // _MOST_BUCKETS))
    buckets = -(-span // width)
    ours, theirs = (_highest(grains, keys, run.measured_from_us, width, buckets)
                    for grains, keys in ((acked, PLACE[1:]), (delivered, PLACE)))  # fmt: skip
    lags: dict[str, Any] = {}
    for group, topic in pairs:
        for (name, partition), sent in ours.items():
            if name == topic:
                behind = _behind(sent, theirs.get((group, topic, partition)))
                lags[group] = lags.get(group, 0) + behind
    at = run.measured_from_us + (np.arange(buckets) + 1) * width
    rows = [pd.DataFrame({"group": group, "at_us": at, "lag": lags[group]}) for group in sorted(lags)]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(
        columns=["group", "at_us", "lag"]
    ), width


def _highest(grains: pd.DataFrame, keys: list[str], from_us: int, width: int, buckets: int) -> dict[Any, Any]:
    """Return by place the highest offset in each bucket, -1 where there is none."""
    # Everything before the window counts into its first bucket.
    bucket = np.maximum((grains["last_us"].to_numpy() - from_us) // width, 0)
    found = {}
    for key, rows in grains.assign(bucket=bucket).groupby(keys, sort=False, observed=True):
        inside = rows[rows["bucket"] < buckets]
        highest = np.full(buckets, -1)
        np.maximum.at(highest, inside["bucket"].to_numpy(), inside["highest"].to_numpy())
        found[key] = highest
    return found


def _behind(sent: Any, got: Any) -> Any:
    """Return how far one partition's deliveries are behind at each bucket's end."""
    known = sent >= 0
    if not known.any():
        return np.zeros(len(sent), np.int64)
    # The lowest of the offsets known so far stands for where the partition began.
    first = np.minimum.accumulate(np.where(known, sent, np.iinfo(np.int64).max))
    last = np.maximum.accumulate(sent)
    upto = np.full(len(sent), -1) if got is None else np.maximum.accumulate(got)
    behind = last - np.where(upto >= 0, upto, first - 1)
    return np.where(last >= 0, np.maximum(behind, 0), 0)


def recovery(lags: pd.DataFrame, restarts: Sequence[Restart], first_begin_us: int) -> list[dict[str, Any]]:
    """Return how long after each restart's begin a group's lag was above its baseline for the last time.

    The baseline is the highest lag of the steady window before the first restart.

    Returns:
        restart, group, baseline (records), highest (records), last_above_us (None: never above).
    """
    found: list[dict[str, Any]] = []
    for group, mine in lags.groupby("group"):
        before = mine[mine["at_us"] <= first_begin_us]
        for one in restarts if len(before) else ():
            inside = mine[(mine["at_us"] >= one.begin_us) & (mine["at_us"] <= one.until_us)]
            if not len(inside):
                continue
            baseline = int(before["lag"].max())
            above = inside["at_us"][inside["lag"] > baseline]
            found.append({
                "restart": one.number,
                "group": group,
                "baseline": baseline,
                "highest": int(inside["lag"].max()),
                "last_above_us": int(above.max()) if len(above) else None,
            })  # fmt: skip
    return found
