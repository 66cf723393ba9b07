"""Streams applications around restarts: what each partition waited for, and what an instance restored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pandas as pd

from spark_checks.rebalance.restarts import Restart

#: Rows a group and restart in the report, the longest stalls first.
_MOST: Final = 100


def by_partition(
    stalls: pd.DataFrame, ownerless: pd.DataFrame | None, names: Iterable[str]
) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """Return by restart and application the longest stall and ownerless time of each partition.

    Args:
        stalls: restart, group, topic, partition, stall_us.
        ownerless: restart, group, topic, partition, ownerless_us.
        names: the applications.

    Returns:
        a row a partition: partition, stall_s, ownerless_s; partitions without either are left out.
    """
    rows = pd.concat([stalls, *([ownerless] if ownerless is not None else [])], ignore_index=True)
    times = ["stall_us", "ownerless_us"]
    rows = rows[rows["group"].isin(list(names))].reindex(columns=["restart", "group", "partition", *times])
    longest = (
        rows.groupby(["restart", "group", "partition"], as_index=False, observed=True)[times].max().fillna(0)
    )
    longest = longest.sort_values(["stall_us", "partition"], ascending=[False, True], kind="stable")
    found: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in longest.to_dict("records"):
        listed = found.setdefault((row["restart"], row["group"]), [])
        if len(listed) < _MOST:
            listed.append(
                {
                    "partition": row["partition"],
                    "stall_s": round(row["stall_us"] / 1e6, 3),
                    "ownerless_s": round(row["ownerless_us"] / 1e6, 3),
                }
            )
    return found


def restores(rocksdb: pd.DataFrame, restarts: Iterable[Restart]) -> dict[int, dict[str, float]]:
    """Return by restart how long the restarted instance told that it was restoring, and how many records.

    An instance that told nothing in that time is left out. A sample a second: so is the error, and a restore
    between two samples is not seen.
    """
    found = {}
    for one in restarts:
        ours = rocksdb[(rocksdb["host"] == one.host) & (rocksdb["instance"] == one.instance)]
        told = ours[ours["at_us"].between(one.begin_us, one.until_us)]["restoring_records"].fillna(0)
        if len(told):
            found[one.number] = {"restore_s": float((told > 0).sum()), "restore_records": int(told.max())}
    return found
