"""Percentiles by nearest rank: the least value that so many percent of all do not exceed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F


def rank(count: int, percent: float) -> int:
    """Return the place of a percentile, from 1, among so many values in order."""
    return max(1, int(-(-percent * count // 100)))


def percentiles(times: Mapping[int, int], percents: Sequence[float]) -> list[int]:
    """Return percentiles (0 to 100) of whole numbers, by how often each of them comes."""
    values = sorted(times)
    upto = [*accumulate(times[value] for value in values)]
    return [values[bisect_left(upto, rank(upto[-1], percent))] for percent in percents]


def counted_percentiles(rows: Sequence[Row], percents: Sequence[float]) -> dict[float, int]:
    """Return percentiles by percent of counted times: us (rounded up), records, longest (exact)."""
    longest = max(row["longest"] for row in rows)
    found = percentiles({row["us"]: row["records"] for row in rows}, percents)
    return {percent: min(us, longest) for percent, us in zip(percents, found, strict=True)}


def percentiles_by(
    counted: DataFrame, keys: Sequence[str], value: str, times: str, percents: dict[str, float]
) -> DataFrame:
    """Return percentiles of each group: ``keys``, and a column for each name of ``percents``.

    Rows are shuffled by their keys once, and sorted.
    """
    whole = Window.partitionBy(*keys)
    until = whole.orderBy(value).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    everything = whole.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    ranked = counted.withColumn("_upto", F.sum(times).over(until)).withColumn(
        "_all", F.sum(times).over(everything)
    )

    def at(percent: float) -> Column:
        return F.min(F.when(F.col("_upto") * 100 >= F.col("_all") * percent, F.col(value)))

    return ranked.groupBy(*keys).agg(*(at(percent).alias(name) for name, percent in percents.items()))


def histogram(value: Column, ends: Sequence[float], times: Column) -> Column:
    """Return the aggregate of how often values came in each class: upper ends, and one for what is beyond."""
    between = ((value > low) & (value <= high) for low, high in pairwise(ends))
    classes = (value <= ends[0], *between, value > ends[-1])
    return F.array(*(F.sum(F.when(inside, times).otherwise(0)) for inside in classes))
