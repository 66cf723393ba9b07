"""One Spark session for all tests of the audit, and evidence of a handful of rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_checks.engine import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    running = session.start("local[2]", "1g", quick=True)
    # Of a handful of rows, 8 tasks find no more than 2 and take longer.
    running.conf.set("spark.sql.shuffle.partitions", "2")
    yield running
    running.stop()
