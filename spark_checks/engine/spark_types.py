"""The evidence tables (kedge.evidence.tables) as Spark reads them, and rows that the driver hands it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from kedge.evidence import tables

TABLES: Final[dict[str, StructType]] = {
    name: from_arrow_schema(tables.arrow_schema(name)) for name in tables.TABLES
}


def local_rows(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: StructType | str) -> DataFrame:
    """Return rows of the driver, a tuple each, as a relation that lies in the plan itself.

    Of a list, ``createDataFrame`` makes an RDD that starts Python workers to read it: two seconds in a short
    audit, and a job wherever it is joined.

    Args:
        schema: names and types, also as DDL.
    """
    struct = cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    wanted = to_arrow_schema(struct)
    columns = list(zip(*rows, strict=True)) or [()] * len(wanted)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, wanted, strict=True)]
    found: DataFrame = spark.createDataFrame(pa.Table.from_arrays(arrays, schema=wanted), struct)
    return found
