"""Streams applications around restarts: what each partition waited for, and what an instance restored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_checks.rebalance.restarts import Restart

#: Rows a group and restart in the report, the longest stalls first.
_MOST: Final = 100


def by_partition(
    stalls: DataFrame, ownerless: DataFrame | None, names: Iterable[str]
) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """Return by restart and application the longest stall and ownerless time of each partition.

    Args:
        stalls: restart, group, topic, partition, stall_us.
        ownerless: restart, group, topic, partition, ownerless_us.
        names: the applications.

    Returns:
        a row a partition: partition, stall_s, ownerless_s; partitions without either are left out.
    """
    wanted = F.col("group").isin(list(names))
    none = F.lit(0).cast("long")
    place = ["restart", "group", "partition"]
    rows = stalls.select(*place, "stall_us", none.alias("ownerless_us"))
    if ownerless is not None:
        rows = rows.unionByName(ownerless.select(*place, none.alias("stall_us"), "ownerless_us"))
    longest = (
        rows.where(wanted)
        .groupBy(*place)
        .agg(F.max("stall_us").alias("stall_us"), F.max("ownerless_us").alias("ownerless_us"))
    )
    found: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in longest.orderBy(F.desc("stall_us"), "partition").collect():
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


def restores(rocksdb: DataFrame, restarts: Iterable[Restart]) -> dict[int, dict[str, float]]:
    """Return by restart how long the restarted instance told that it was restoring, and how many records.

    An instance that told nothing in that time is left out. A sample a second: so is the error, and a restore
    between two samples is not seen.
    """
    found = {}
    for one in restarts:
        ours = rocksdb.where((F.col("host") == one.host) & (F.col("instance") == one.instance))
        row = (
            ours.where(F.col("at_us").between(one.begin_us, one.until_us))
            .agg(
                F.count(F.lit(1)).alias("samples"),
                F.count_if(F.col("restoring_records") > 0).alias("restoring"),
                F.max("restoring_records").alias("records"),
            )
            .first()
        )
        if row is not None and row["samples"]:
            found[one.number] = {"restore_s": float(row["restoring"]), "restore_records": row["records"] or 0}
    return found
