"""Percentiles by nearest rank, of lists and of Spark's rows."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_checks.engine.percentiles import percentiles, percentiles_by, rank
from spark_checks.engine.spark_types import local_rows

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("count", "percent", "place"),
    [(10, 50, 5), (10, 99, 10), (10, 100, 10), (200, 99, 198), (201, 99, 199), (20, 5, 1), (1, 0, 1)],
)
def test_the_rank_of_a_percentile_is_the_least_place_that_covers_it(
    count: int, percent: float, place: int
) -> None:
    assert rank(count, percent) == place


def test_a_percentile_is_a_value_that_was_measured_and_none_between_two() -> None:
    assert percentiles({8: 1, 1: 5, 3: 4}, (50, 51, 90, 99, 100)) == [1, 3, 3, 8, 8]


def test_spark_and_lists_have_the_same_percentiles(spark: SparkSession) -> None:
    rows = [("a", 8, 1), ("a", 1, 5), ("a", 3, 4), ("b", 7, 1)]
    counted = local_rows(spark, rows, "via string, us long, records long")
    found = percentiles_by(counted, ["via"], "us", "records", {"p50": 50, "p51": 51, "p99": 99}).collect()
    assert {row["via"]: (row["p50"], row["p51"], row["p99"]) for row in found} == {
        "a": (1, 3, 8),
        "b": (7, 7, 7),
    }
