"""Streams applications around restarts: what each partition waited for, and what an instance restored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pandas as pd
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from kedge.evidence.run import Run
from spark_checks.rebalance.restarts import Restart

#: Rows a group and restart in the report, the longest stalls first.
_MOST: Final = 100


def longest_stalls(stalls: DataFrame, run: Run) -> DataFrame:
    """Return the longest stall of each partition of an application, by restart, the first ones: stall_us."""
    mine = stalls.where(F.col("group").isin([app.name for app in run.applications]))
    longest = mine.groupBy("restart", "group", "partition").agg(F.max("stall_us").alias("stall_us"))
    rank = Window.partitionBy("restart", "group").orderBy(F.desc("stall_us"), "partition")
    return longest.withColumn("_n", F.row_number().over(rank)).where(F.col("_n") <= _MOST).drop("_n")


def by_partition(
    stalls: Iterable[Row], ownerless: Iterable[Mapping[str, Any]], run: Run
) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """Return by restart and application the longest stall and ownerless time of each partition.

    Args:
        stalls: restart, group, partition, stall_us.
        ownerless: restart, group, partition, ownerless_us.
        run: run.json.

    Returns:
        a row a partition: partition, stall_s, ownerless_s; partitions without either are left out.
    """
    names = {app.name for app in run.applications}
    found: dict[tuple[int, str], dict[int, dict[str, float]]] = {}
    for measure, rows in (("stall", [row.asDict() for row in stalls]), ("ownerless", ownerless)):
        for row in rows:
            if row["group"] in names:
                places = found.setdefault((row["restart"], row["group"]), {})
                times = places.setdefault(row["partition"], {"stall_s": 0.0, "ownerless_s": 0.0})
                times[f"{measure}_s"] = max(times[f"{measure}_s"], round(row[f"{measure}_us"] / 1e6, 3))
    return {
        key: [
            {"partition": partition, **times}
            for partition, times in sorted(places.items(), key=lambda one: (-one[1]["stall_s"], one[0]))
        ][:_MOST]
        for key, places in found.items()
    }


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
