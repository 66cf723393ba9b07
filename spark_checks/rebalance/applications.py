"""Streams applications around restarts: what each partition waited for, and what an instance restored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kedge.evidence.run import Run

#: Rows a group and restart in the report, the longest stalls first.
_MOST: Final = 100
_MEASURES: Final = ("stall", "ownerless")


def by_partition(found: Sequence[DataFrame], run: Run) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """Return by restart and application the longest stall and ownerless time of each partition.

    Args:
        found: restart, group, partition, and stall_us or ownerless_us.

    Returns:
        a row a partition: partition, stall_s, ownerless_s; partitions without either are left out.
    """
    if not run.applications or not found:
        return {}
    names = [f"{name}_us" for name in _MEASURES]
    keys = ("restart", "group", "partition")
    parts = [
        frame.select(*keys, *(F.col(n) if n in frame.columns else F.lit(0).alias(n) for n in names))
        for frame in found
    ]
    of_apps = reduce(DataFrame.unionByName, parts).where(
        F.col("group").isin([app.name for app in run.applications])
    )
    longest = of_apps.groupBy(*keys).agg(*(F.max(name).alias(name) for name in names))
    rank = Window.partitionBy("restart", "group").orderBy(F.desc("stall_us"), "partition")
    first = longest.withColumn("rank", F.row_number().over(rank)).where(F.col("rank") <= _MOST)
    rows: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in first.orderBy("restart", "group", "rank").collect():
        times = {f"{name}_s": round(row[f"{name}_us"] / 1e6, 3) for name in _MEASURES}
        rows.setdefault((row["restart"], row["group"]), []).append({"partition": row["partition"], **times})
    return rows


def restores(rocksdb: DataFrame, times: DataFrame) -> dict[int, dict[str, float]]:
    """Return by restart how long the restarted instance told that it was restoring, and how many records.

    An instance that told nothing in that time is left out. A sample a second: so is the error, and a restore
    between two samples is not seen.
    """
    records = F.coalesce("restoring_records", F.lit(0))
    inside = F.col("at_us").between(F.col("begin_us"), F.col("until_us"))
    told = rocksdb.join(times, ["host", "instance"]).where(inside).groupBy("restart")
    rows = told.agg(F.count_if(records > 0).alias("samples"), F.max(records).alias("most")).collect()
    return {
        row["restart"]: {"restore_s": float(row["samples"]), "restore_records": row["most"]} for row in rows
    }
