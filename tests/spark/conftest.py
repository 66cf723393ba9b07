"""One Spark session for all tests of the audit, and evidence of a handful of rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_checks import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    running = session.start("local[2]", "1g")
    # Five rows need neither generated code nor replanning; both cost more here than the queries.
    running.conf.set("spark.sql.shuffle.partitions", "2")
    running.conf.set("spark.sql.codegen.wholeStage", "false")
    running.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    running.conf.set("spark.sql.adaptive.enabled", "false")
    yield running
    running.stop()
